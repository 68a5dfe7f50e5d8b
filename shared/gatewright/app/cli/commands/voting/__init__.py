"""Commands of reviewers."""
