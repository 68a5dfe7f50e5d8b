"""Go: ``go test``. ``GOFLAGS`` has ``-exec`` start each test binary through ``runner.sh``, a separate process.

It reports the tests, examples and fuzz tests of a package, not their subtests, which are unknown until they run. The
sandbox needs read access to a toolchain, and to the modules that the tests need.
"""
