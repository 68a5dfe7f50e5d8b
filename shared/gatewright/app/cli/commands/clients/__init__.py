"""Commands that start a client of the bus for others: hosts of coding agents."""
