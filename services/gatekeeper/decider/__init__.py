"""The pure core: which gates to ask about an input, and what a run becomes when they have answered. No I/O anywhere below."""
