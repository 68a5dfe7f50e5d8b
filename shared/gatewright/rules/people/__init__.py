"""Rules about people: whose a run is, and whether what they have signed still counts."""
