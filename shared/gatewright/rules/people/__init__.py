"""Rules about people: whose a run is, whose a signature is and of when, and to whom requests are handed on."""
