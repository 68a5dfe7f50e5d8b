"""What is known of each language's tests: how a test command is recognised, made to tell its tests, and shown to be alive.

One package for each ecosystem; ``port.py`` is what each of them provides, ``registry.py`` lists them.
"""
