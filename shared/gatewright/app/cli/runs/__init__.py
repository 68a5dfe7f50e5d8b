"""Commands that display runs: the sources of runs, and their formats."""
