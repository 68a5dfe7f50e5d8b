"""What people are asked beside a run: what tasks could not tell, and have guessed, and what agents ask leave for."""
