"""Coding agents as programs in a sandbox: start, conversation, observation, end. Their claims are never trusted."""
