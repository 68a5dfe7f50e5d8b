"""tox: the commands of its environments are read from its settings, and reported through their own framework."""
