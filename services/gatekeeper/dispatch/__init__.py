"""Tasks on their way to roles: in which class, with which token, once."""
