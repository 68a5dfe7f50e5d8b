"""Small changes of what a change has written, each tried against the tests: what no test notices is shown."""
