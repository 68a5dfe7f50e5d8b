"""How a change is made: by a command, from a given patch, or out of a model's reply."""
