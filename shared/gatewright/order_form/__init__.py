"""The order form: one table of the options of an order, for command line, live page, tool of hosts and retry line."""
