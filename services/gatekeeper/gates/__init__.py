"""The gates: each answers one question about a run with a report. What cannot be judged has failed."""
