"""The last gates of a run: its paths, its definition of done, and the commit on its ref."""
