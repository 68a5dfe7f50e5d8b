"""The run bundle: layout, projection from the ledger, signature, verification."""
