"""Environments for a baseline: the packages that its files declare, installed once beside the records of this installation."""
