"""All calls to models, by every role and agent: the policy of models, the gateway, its records and its cassettes."""
