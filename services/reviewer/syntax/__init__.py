"""Facts from a source file's syntax tree: its tests with their checks, and forms that evade them. Pure."""
