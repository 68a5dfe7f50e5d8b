"""Rules that need nothing but documents: the gates judge by them while a run goes on, ``verify`` once more when it is over."""
