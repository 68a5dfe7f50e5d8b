"""A run in documents of other systems. Only recorded facts are included."""
