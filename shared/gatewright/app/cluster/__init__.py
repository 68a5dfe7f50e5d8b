"""The health of an installation: queried over the bus as an operator, and judged."""
