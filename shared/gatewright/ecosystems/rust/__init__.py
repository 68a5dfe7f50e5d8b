"""Rust: ``cargo test``. Cargo is told through ``CARGO_TARGET_<TRIPLE>_RUNNER`` to start each test binary by ``runner.sh``.

The runner is a process of its own: it lists a binary's tests before it runs them, and a binary that ends early has not told the
rest. Documentation tests run, and are not counted: rustdoc starts them one by one.
"""
