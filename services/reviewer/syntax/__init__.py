"""What a source file says by its syntax tree: its tests with what they check, and the forms that evade them. Pure."""
