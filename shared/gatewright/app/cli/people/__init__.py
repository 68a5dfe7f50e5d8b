"""Approvals, reviews and questions to people on the command line."""
