"""Commands that ask the gates without a run: ``check``, ``policy explain``, git hooks."""
