"""Every call to a model, of every role and every agent: the policy of models, the gateway, its records and its cassettes."""
