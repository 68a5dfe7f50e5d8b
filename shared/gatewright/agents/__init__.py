"""Which coding agents there are: the operator's list of them, and where their programs lie on this host."""
