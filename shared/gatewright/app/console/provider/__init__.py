"""Sign-in at a provider of OpenID Connect: the provider, the claim for each role, and the redirects."""
