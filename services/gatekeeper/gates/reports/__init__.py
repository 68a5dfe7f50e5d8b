"""Gates on role reports: about the right tree, complete, and with all artifacts stored."""
