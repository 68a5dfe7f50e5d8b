"""The tests that failed beside all others, once more and one after another: `.ci/alone.py EXIT_CODE`, with that of pytest.

A test that is red beside four others on a busy machine and green alone has waited for something that came too late: a fault,
mostly of the test, which is named here and does not hold up a change that has nothing to do with it. A few at most: more of
them are no chance. What ended otherwise than with failed tests (an error of pytest, an interrupt, no test) is not tried again.
"""

import json
import subprocess
import sys
from pathlib import Path

#: What a whole run may have of them: of some 16,000 tests, many of them whole systems on two busy cores.
MOST = 6
#: pytest's exit code when all were played and some failed.
SOME_FAILED = 1
#: Where those that stay red are noted, one a line: what many steps have written in between is between them and the end of CI.
RED = Path(".ci-artifacts", "red")


def failed_tests(cache: Path) -> list[str]:
    """What pytest has noted of its last run below ``cache``, by node ids; nothing where it noted nothing."""
    noted = cache / "v" / "cache" / "lastfailed"
    return sorted(json.loads(noted.read_text("utf-8"))) if noted.is_file() else []


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
