"""The live page for people (``gatewright console``): pages drawn here, kept up to date by server-sent events. It only looks."""
