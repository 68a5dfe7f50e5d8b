"""The gatekeeper's own records, recomputed by the decider's functions and compared as a whole."""
