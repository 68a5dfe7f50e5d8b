"""The identities of the bus for servers in operator mode: accounts and users as signed claims."""
