"""Keys and signatures of bundles."""
