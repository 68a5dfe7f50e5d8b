"""Gates on what roles report: about the right tree, complete, and really stored."""
