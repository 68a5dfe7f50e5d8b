"""How a whole installation is: asked over the bus as an operator, and judged."""
