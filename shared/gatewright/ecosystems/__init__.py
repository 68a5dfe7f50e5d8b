"""Test frameworks by language: recognising test commands, making them report each test, and proving that they run.

One package for each ecosystem; ``port.py`` is the interface that each provides, ``registry.py`` lists them.
"""
