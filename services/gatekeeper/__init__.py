"""The gatekeeper: alone decides, judges, lands and writes evidence."""
