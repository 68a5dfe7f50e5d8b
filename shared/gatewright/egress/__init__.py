"""The way of a pull to the network: GET and HEAD to the registries of the policy, each request in a chained log."""
