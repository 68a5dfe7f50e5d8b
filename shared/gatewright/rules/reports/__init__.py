"""What the reports of roles say and prove, judged without a policy: results, tests, mutants, proofs, times, artifacts."""
