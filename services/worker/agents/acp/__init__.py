"""The Agent Client Protocol, version 1: how editors talk to coding agents, and how the worker does.

The types are those of the official library; the wire is our own, because what is at its other end is hostile.
"""
