"""The services with a wall clock that a test can move."""
