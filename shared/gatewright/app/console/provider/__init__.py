"""Sign-in at a provider of OpenID Connect: which provider, whose claim gives which role, and the way there and back."""
