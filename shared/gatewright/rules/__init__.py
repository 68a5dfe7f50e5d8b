"""Rules on documents alone: the gates apply them during a run, and ``verify`` applies them again afterwards."""
