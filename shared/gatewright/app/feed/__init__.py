"""What feeds the board: a client on the bus that follows the ledger. It reads, and decides nothing."""
