"""A bundle as a pure function of an ended run's events."""
