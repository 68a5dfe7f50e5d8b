"""nox: the commands of its sessions are read from its file without running it, and reported through their own framework."""
