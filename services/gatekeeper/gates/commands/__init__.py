"""Gates on commands: may this argv run, and is it worth anything as a test?"""
