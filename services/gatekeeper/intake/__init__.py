"""What comes in from outside and from roles: who may say what, how much, and what is answered."""
