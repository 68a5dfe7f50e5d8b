"""The board: every run of the ledger as people look at them, what waits for a person, and one run in detail. No I/O."""
