"""What people are shown of a run: where it stands, what happened, what it needs. Pure; every surface renders these."""
