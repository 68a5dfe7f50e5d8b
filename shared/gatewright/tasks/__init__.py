"""Tasks on the bus: how they look, how a role takes, does and settles them, and what is put aside."""
