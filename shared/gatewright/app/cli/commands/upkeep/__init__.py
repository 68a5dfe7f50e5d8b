"""Commands for operators of an installation: keeping it, and bringing it back."""
