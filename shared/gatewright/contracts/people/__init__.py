"""Documents that people are asked and answer with: approvals, votes, and what sends a change back."""
