"""The product's own orchestrator, decider, dispatcher and ledger on a simulated bus, by a simulated clock."""
