"""How long bundles are kept: what may be removed, what must stay, and what is left in their place."""
