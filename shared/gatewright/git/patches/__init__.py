"""Reading of patches, without git."""
