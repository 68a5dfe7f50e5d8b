"""The worker: makes the change that a contract orders, and hands over a patch."""
