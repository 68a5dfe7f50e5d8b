"""The available coding agents: the operator's list, and their programs on this host."""
