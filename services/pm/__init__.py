"""The product manager: compiles a structured request into a task contract."""
