"""The server of the Model Context Protocol: what a coding host may ask of Gatewright, as a publisher and no more."""
