"""Extracts files from a model's text reply: splits it into blocks, finds their names, refuses ambiguous ones."""
