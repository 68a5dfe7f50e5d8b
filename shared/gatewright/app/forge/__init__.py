"""The process that shows runs as pull requests on a forge, and orders runs that judge the requests of others.

``port`` is what it needs of a forge. It can neither push nor decide: only the gatekeeper does.
"""
