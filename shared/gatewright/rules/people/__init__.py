"""Rules about people: ownership of runs, signatures and their times, delegations."""
