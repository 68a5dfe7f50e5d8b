"""What a role says of its tasks in time: every beat, that one is still in hand."""
