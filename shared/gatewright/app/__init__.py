"""What is a program and not a library: the command line, the embedded stack, reports, replay, retention."""
