"""A sandboxed command as a tree of processes: started, followed, ended whole."""
