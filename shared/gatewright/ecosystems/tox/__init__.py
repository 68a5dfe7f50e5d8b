"""tox: the commands of its environments are read from its settings, and told through their own framework."""
