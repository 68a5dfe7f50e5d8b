"""The last gates of a run: path locks, the definition of done, and the commit on the target ref."""
