"""Go: ``go test``. ``GOFLAGS`` has ``-exec`` start each test binary by ``runner.sh``, which is a process of its own.

Told are the tests, examples and fuzz tests of a package, not their subtests: those are known only once they have run. A
toolchain must be shown to the sandbox, and the modules that the tests need.
"""
