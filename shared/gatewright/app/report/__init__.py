"""Reports for people: a run bundle as one HTML page, and as a packet in Markdown. Everything in a bundle is hostile here."""
