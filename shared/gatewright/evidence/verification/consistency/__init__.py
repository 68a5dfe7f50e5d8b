"""Contradictions between documents, by the rules that decided during the run.

A valid key does not make a false statement true.
"""
