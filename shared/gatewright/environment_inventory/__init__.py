"""Lists the packages of an environment, and the files that no package accounts for."""
