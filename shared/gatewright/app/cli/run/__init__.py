"""``gatewright run``, ``submit`` and ``watch``: from options to a request, and from events to a display."""
