"""The life of a role's process: settings, connection, signals, health, exit code."""
