"""Ledger of runs: the hash chain of events, and the stream that stores them."""
