"""The server of the Model Context Protocol, which serves coding hosts with the permissions of a publisher."""
