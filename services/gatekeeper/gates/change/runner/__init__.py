"""What decides which tests run: settings inside files of another class, and the files that a contract's commands read."""
