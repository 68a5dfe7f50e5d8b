"""Research: where a searcher may look, what it read, and the text in which its quotes are found."""
