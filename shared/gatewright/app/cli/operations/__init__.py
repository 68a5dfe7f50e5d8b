"""Commands for operators: the host, the stack, the bus, its queues and dead letters."""
