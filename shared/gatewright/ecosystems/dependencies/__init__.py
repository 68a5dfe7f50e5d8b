"""Packages and their sources in manifests and lock files, and descriptions of changes to them."""
