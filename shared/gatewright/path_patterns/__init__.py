"""Which patterns of an operator's file a path falls under: protected classes, owners."""
