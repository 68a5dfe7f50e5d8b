"""The gatekeeper: the only role that decides, judges, lands changes and writes evidence."""
