"""``gatewright sign-agent``: signs what a person decides on the live page, with the person's key, where the person sits."""
