"""``make test`` and ``make check``: whatever test command the rule runs is recognised, and told through its own framework."""
