"""Environments that are made for a baseline: what its files declare, installed once beside the records of this installation."""
