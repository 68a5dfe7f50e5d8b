"""git as a hardened tool: own configuration only, argv only, objects instead of worktrees."""
