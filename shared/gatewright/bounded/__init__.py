"""Evaluation of untrusted input within limits of time and memory, in a child process that is killed beyond them."""
