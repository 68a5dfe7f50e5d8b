"""Codex: its app server, spoken natively, and ``codex exec`` as the plain form."""
