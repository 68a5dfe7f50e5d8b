"""Commands about the bus itself: what names it has, who may use them, and the servers that hold everyone to it."""
