"""Coding agents as programs in a box: started, talked to, followed, ended. What they say is never believed."""
