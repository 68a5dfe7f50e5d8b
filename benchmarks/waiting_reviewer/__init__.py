"""A reviewer that takes two seconds longer than the real one, for what goes on beside it."""
