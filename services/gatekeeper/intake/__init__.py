"""Input from outside and from roles: authorisation, limits and replies."""
