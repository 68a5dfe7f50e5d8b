"""Matching of paths against patterns of an operator's file: protected classes, owners."""
