"""Run the failed tests of the last run again, alone: `.ci/alone.py EXIT_CODE`, with the exit code of pytest.

A test that fails beside others on a busy machine and passes alone depends on timing. That is a defect, mostly of the test; this
script names it, and it does not block an unrelated change. The script repeats at most ``MOST`` tests, because more failures are
no coincidence. It repeats nothing after an error of pytest, an interrupt, or a run without tests.
"""

import json
import subprocess
import sys
from pathlib import Path

#: Most failed tests that are repeated.
MOST = 6
#: pytest's exit code when all tests ran and some failed.
SOME_FAILED = 1
#: The file that lists the tests that still fail, one per line; CI prints it at its end.
RED = Path(".ci-artifacts", "red")


def failed_tests(cache: Path) -> list[str]:
    """Return the node ids of failed tests that pytest recorded in ``cache``; empty without a record."""
    record = cache / "v" / "cache" / "lastfailed"
    return sorted(json.loads(record.read_text("utf-8"))) if record.is_file() else []


def main(code: int) -> int:
    failed = failed_tests(Path(".pytest_cache")) if code == SOME_FAILED else []
    RED.parent.mkdir(exist_ok=True)
    RED.write_text("".join(f"{test}\n" for test in failed), "utf-8")
    if not 0 < len(failed) <= MOST:
        return code
    print(f"=== once more, alone: {', '.join(failed)}", flush=True)
    again = subprocess.run([sys.executable, "-m", "pytest", *failed], check=False).returncode
    if again == 0:
        RED.write_text("", "utf-8")
        print(f"=== RED BESIDE OTHERS, GREEN ALONE: {', '.join(failed)}", flush=True)
    return again


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
