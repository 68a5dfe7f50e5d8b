"""The operator's policy files: their models, how they are read, and the rules that they are made of."""
