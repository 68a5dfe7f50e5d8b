"""Reporter code that runs inside, beside the tests, and writes records to the pipe. Shipped as files, never imported here.

Written for every Python that a repository may be tested with (3.8 and later), and needs only its standard library.
"""
