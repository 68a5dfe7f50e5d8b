"""Projections of the ledger over all runs. One reader, one decoder."""
