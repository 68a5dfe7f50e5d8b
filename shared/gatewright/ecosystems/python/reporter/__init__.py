"""What runs inside, beside the tests: tells them through the pipe. Shipped as files, and never imported by Gatewright itself.

Written for every Python that a repository may be tested with (3.8 and later), and needs nothing but its standard library.
"""
