"""What the gatekeeper wrote itself follows from the run: it is made anew by the decider's own functions, and compared whole."""
