"""The board's data source: a client on the bus that follows the ledger. It only reads."""
