"""The message bus: a small port, two implementations, the topology, and the runner that all roles share."""
