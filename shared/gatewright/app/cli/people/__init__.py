"""What people are asked and answer, on the command line."""
