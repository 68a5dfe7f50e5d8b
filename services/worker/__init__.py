"""The worker: makes the change that a contract orders, and submits a patch."""
