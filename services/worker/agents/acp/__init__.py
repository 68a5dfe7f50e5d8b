"""The Agent Client Protocol, version 1, and 2 where a policy opens it: how editors talk to agents, and how the worker does.

The types are those of the official library, and for version 2, which it does not know, of its published schema; the wire is our
own, because what is at its other end is hostile.
"""
