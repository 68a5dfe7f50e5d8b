"""``verify``: a bundle read as hostile input and held against everything that it claims."""
