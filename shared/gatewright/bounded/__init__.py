"""Judgements over what strangers wrote, each within a time and a memory: in a child process that is killed beyond them."""
