"""The test runner: acceptance commands on the candidate tree, in the sandbox."""
