"""Backup and restore of a whole installation: streams, keys and identities, policies, sealed bundles."""
