"""``python -m tests.fuzz [--minutes M]``: all targets in turns until the time is up; then the counts."""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter

from tests.fuzz.targets import Targets

#: Seconds between two lines of progress.
REPORT_EVERY = 30.0


def say(words: str) -> None:
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Feed hostile input to the gates.")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--repeat", nargs=2, metavar=("TARGET", "INPUT"), help="one input again, as a failure names it")
    words = parser.parse_args()
    targets = Targets()
    if words.repeat:
        targets.steps()[words.repeat[0]](random.Random(int(words.repeat[1])))  # noqa: S311 - inputs, no secrets
        return 0
    seed = random.SystemRandom().randrange(2**32)
    done, accepted = Counter[str](), Counter[str]()
    started = told = time.monotonic()
    try:
        while time.monotonic() - started < words.minutes * 60:
            for name, step in targets.steps().items():
                # Quick targets get more turns than those that start git.
                for _ in range(1 if name in {"patches", "parts"} else 25):
                    seed += 1
                    try:
                        accepted[name] += step(random.Random(seed))  # noqa: S311 - inputs, no secrets
                    except BaseException:
                        sys.stderr.write(f"to see it again: python -m tests.fuzz --repeat {name} {seed}\n")
                        raise
                    done[name] += 1
            if time.monotonic() - told > REPORT_EVERY:
                told = time.monotonic()
                say(f"{told - started:5.0f} s  {dict(done)}")
    finally:
        targets.close()
    for name, count in done.items():
        say(f"{name}: {count} inputs, {accepted[name]} accepted, none beyond what the contract allows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
