"""Bubblewrap: commands from outside run here, without network, without secrets, within limits."""
