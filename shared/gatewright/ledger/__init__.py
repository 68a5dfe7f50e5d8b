"""The life of a run as events: what they mean (evolve), their hash chain, and the stream that stores them."""
