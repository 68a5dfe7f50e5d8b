"""Access to repositories of other hosts: policy, credentials, and hiding of credentials in output."""
