"""What the command line gives the live page: connections by its identities, and the gates to ask."""
