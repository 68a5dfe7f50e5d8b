"""Answers a question with sources: a model searches and reads through a desk that keeps what it read."""
