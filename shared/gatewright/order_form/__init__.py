"""The order form: one table of options for the command line, the live page, the tool of hosts and retry lines."""
