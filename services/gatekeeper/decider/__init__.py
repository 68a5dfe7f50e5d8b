"""The pure core: decides which gates to ask about an input, and which transition their answers lead to. No I/O."""
