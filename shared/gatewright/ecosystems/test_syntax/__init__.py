"""Tests in source files, by syntax trees: the cases of a file, and what each of them checks."""
