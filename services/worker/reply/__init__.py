"""Files out of a model's text reply: scan it into blocks, find their names, refuse what cannot be told apart."""
