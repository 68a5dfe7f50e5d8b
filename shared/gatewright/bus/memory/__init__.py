"""The bus in the memory of one process: the same rules, nothing kept."""
