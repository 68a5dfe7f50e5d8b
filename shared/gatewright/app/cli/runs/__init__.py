"""Commands that look at runs: where they are read from and how they are told."""
