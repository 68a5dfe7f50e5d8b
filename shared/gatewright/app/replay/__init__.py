"""Runs told again: from their bundle, from the ledger, or by doing the work once more."""
