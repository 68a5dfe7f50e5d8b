"""What decides which tests run: tests by their names, settings of runners, and the files that commands read for it."""
