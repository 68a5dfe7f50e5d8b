"""What manifests and lock files say of packages and where they come from, and of what kind a change of them is."""
