"""The embedded stack: a NATS server and the six services on this machine."""
