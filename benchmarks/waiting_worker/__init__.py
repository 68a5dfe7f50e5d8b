"""The worker with an executor that only waits."""
