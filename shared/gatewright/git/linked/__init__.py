"""Contents that a tree names and its repository does not hold: submodules, and objects of Git LFS."""
