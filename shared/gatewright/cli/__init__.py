"""The gatewright command line."""
