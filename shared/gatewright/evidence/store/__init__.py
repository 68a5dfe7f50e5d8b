"""Bundles in an object store: names, archives, the S3 client, static exports. Data from a store is never trusted."""
