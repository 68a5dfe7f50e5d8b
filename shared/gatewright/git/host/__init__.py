"""Repositories in folders of this host: what they are, what they may hide, and how a ref is moved in them."""
