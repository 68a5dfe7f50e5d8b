"""The gates: each answers one question about a run with a report. An undecidable check fails."""
