"""Replays of runs: from their bundle, from the ledger, or by repeating the work."""
