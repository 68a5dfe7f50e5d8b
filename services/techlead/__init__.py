"""The tech lead: splits a contract into disjoint shards."""
