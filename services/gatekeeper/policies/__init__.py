"""The operator's policy files: models, loading, and the rules built from them."""
