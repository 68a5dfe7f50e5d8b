"""Claude Code: its stream of JSON, spoken natively."""
