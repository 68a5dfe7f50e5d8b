"""Environment profiles: what commands of a language see by the operator's ``environments.json``, and which one is chosen."""
