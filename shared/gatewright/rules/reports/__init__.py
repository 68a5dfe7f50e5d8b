"""Rules on role reports without policies: results, tests, mutants, proofs, times, artifacts."""
