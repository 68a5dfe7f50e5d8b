"""Two trees side by side: ``python -m benchmarks.compare REF [--rounds 3] [--runs 20] [--cold 1] [--json FILE]``.

The tree of REF is checked out for the time (a git worktree) and measured with this tree's programs and packages, in turns with
this tree, so that both see the same machine. Shown are the median of each figure over the rounds with the least and the most,
and the ratio new to old: its median over the rounds, its least and its most. Processor time and ratios hold on a busy machine;
times do not. A tree whose packages or interfaces differ too much cannot be measured like this, and its process prints why.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parent.parent
#: What each round of one tree found: figure to milliseconds, or to a ratio.
Round = Mapping[str, float]


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ref")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--cold", type=int, default=1)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(words)
    commit = _git("rev-parse", "--verify", "--end-of-options", f"{given.ref}^{{commit}}")
    old: list[Round] = []
    new: list[Round] = []
    with tempfile.TemporaryDirectory(prefix="gatewright-compare-") as folder:
        tree = Path(folder) / "old"
        _git("worktree", "add", "--quiet", "--detach", str(tree), commit)
        try:
            for number in range(given.rounds):
                # Each goes first as often as the other.
                turns = [(tree, old), (HERE, new)]
                for place, found in turns if number % 2 == 0 else reversed(turns):
                    found.append(_measure(place, given.runs, given.cold))
        finally:
            _git("worktree", "remove", "--force", str(tree))
    compared = compare(old, new)
    _show(given.ref, compared)
    if given.json is not None:
        facts = {"old": commit, "new": _git("rev-parse", "HEAD"), "rounds": given.rounds, "runs": given.runs}
        given.json.write_text(json.dumps({**facts, "figures": compared}, indent=1) + "\n", encoding="utf-8")


def compare(old: Sequence[Round], new: Sequence[Round]) -> dict[str, dict[str, list[float]]]:
    """Each figure that every round of both has: ``old``, ``new`` and ``ratio``, each as median, least, most. Pure."""
    names = [name for name in new[0] if all(name in found for found in (*old, *new))]
    compared = {}
    for name in names:
        before, after = [found[name] for found in old], [found[name] for found in new]
        ratios = [later / earlier for earlier, later in zip(before, after, strict=True) if earlier > 0]
        compared[name] = {"old": _spread(before), "new": _spread(after), "ratio": _spread(ratios) if ratios else []}
    return compared


def _spread(values: Sequence[float]) -> list[float]:
    return [round(value, 3) for value in (statistics.median(values), min(values), max(values))]


def _measure(tree: Path, runs: int, cold: int) -> Round:
    """One round, in a process that finds the packages of ``tree`` first."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "shared")}
    argv = [sys.executable, str(HERE / "benchmarks" / "small_runs.py"), "--runs", str(runs), "--cold", str(cold)]
    finished = subprocess.run(argv, env=environment, cwd="/", check=False, capture_output=True, text=True)
    if finished.returncode != 0:
        raise SystemExit(f"{tree} cannot be measured:\n{finished.stderr[-4000:]}")
    found: Round = json.loads(finished.stdout.splitlines()[-1])
    return found


def _show(ref: str, compared: Mapping[str, Mapping[str, Sequence[float]]]) -> None:
    table = Table("figure", f"old ({ref})", "new", "new / old", title="median (least to most) of the rounds")
    for name, found in compared.items():
        table.add_row(name, *(_words(found[part], digits) for part, digits in (("old", 1), ("new", 1), ("ratio", 2))))
    Console(highlight=False, width=120).print(table)


def _words(spread: Sequence[float], digits: int) -> str:
    return "{:.{d}f} ({:.{d}f} to {:.{d}f})".format(*spread, d=digits) if spread else "-"


def _git(*words: str) -> str:
    """git on this checkout. Raises SystemExit with its words."""
    finished = subprocess.run(["git", "-C", str(HERE), *words], check=False, capture_output=True, text=True)
    if finished.returncode != 0:
        raise SystemExit(finished.stderr.strip())
    return finished.stdout.strip()


if __name__ == "__main__":
    main()
