"""``verify``: reads a bundle as hostile input and checks every claim in it."""
