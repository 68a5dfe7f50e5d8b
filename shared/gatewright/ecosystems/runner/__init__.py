"""What decides which tests run: tests by name, settings of runners, and the files that commands read for it."""
