"""``make test`` and ``make check``: the rule's test command is recognised, and reported through its own framework."""
