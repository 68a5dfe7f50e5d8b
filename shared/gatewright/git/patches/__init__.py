"""What is read of a patch itself, without git."""
