"""Files and folders that a run is given beside the repository."""
