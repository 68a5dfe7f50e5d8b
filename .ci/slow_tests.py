"""Print the slow tests of a log, for tests/slow_tests.txt: those of which one case took at least SECONDS.

make test-ci TESTS="--durations=0 --durations-min=0.5" >log
python .ci/slow_tests.py <log >tests/slow_tests.txt
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator

#: On a machine that also does other work.
SECONDS = 0.5
_CALL = re.compile(r"\s*([\d.]+)s call +(tests/[^\[]+)")


def slow_tests(log: Iterable[str]) -> Iterator[str]:
    """Yield the function of each call that took long, as ``tests/file.py::function``."""
    for line in log:
        if (found := _CALL.match(line)) is not None and float(found[1]) >= SECONDS:
            yield found[2].strip()


if __name__ == "__main__":
    sys.stdout.write("".join(f"{name}\n" for name in sorted(set(slow_tests(sys.stdin)))))
