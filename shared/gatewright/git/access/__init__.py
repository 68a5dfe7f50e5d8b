"""How git gets at repositories of other hosts: whose they are, with which credential, and what must not be seen of it."""
