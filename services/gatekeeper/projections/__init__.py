"""What the ledger says about all runs at once, for those who look after them. One reader, one decoder."""
