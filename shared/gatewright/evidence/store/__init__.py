"""Bundles in an object store: names, archives, the S3 client, static exports. What is read from a store is never trusted."""
