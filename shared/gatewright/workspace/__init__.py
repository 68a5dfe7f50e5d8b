"""Places where commands run: an overlay over a cached baseline, or a plain checkout; and what changed in them."""
