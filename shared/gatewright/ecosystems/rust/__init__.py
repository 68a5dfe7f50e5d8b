"""Rust: ``cargo test``, ``cargo nextest run``. ``CARGO_TARGET_<TRIPLE>_RUNNER`` has each test binary started by ``runner.sh``.

The runner is a process of its own: it lists a binary's tests before it runs them, and a binary that ends early has not told the
rest. nextest starts it for each list and for each test. Documentation tests run, and are not counted: rustdoc starts them one
by one.
"""
