"""Rust: ``cargo test``, ``cargo nextest run``. ``CARGO_TARGET_<TRIPLE>_RUNNER`` has ``runner.sh`` start each test binary.

The runner is a separate process: it lists a binary's tests before it runs them, so a binary that ends early leaves tests
unreported. nextest starts it for each list and for each test. Documentation tests run but are not reported: rustdoc starts
them one by one.
"""
