"""What tasks could not tell, and have guessed: which such questions are legal, and which people are asked beside the run."""
