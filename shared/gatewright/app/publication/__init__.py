"""Publication of what a sealed run made: to sinks of the operator's policy, signed, once."""
