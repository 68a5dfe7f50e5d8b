"""The script that checks landings without Gatewright: it accepts real ones, and stops at the first that was tampered with."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gatewright.contracts import codec
from gatewright.evidence import layout
from gatewright.queue.receipt import read_receipt
from tests.evidence.queue_landings import RUNS, Landings, landings
from tests.evidence.tampering import put, remake_manifest
from tests.git.repositories import Repository
from tests.queue.tampered_receipts import TAMPERED

__all__ = ["landings"]

SCRIPT = Path(__file__).parents[2] / "docs" / "scripts" / "walk_landings.sh"


@dataclass(frozen=True)
class Walked:
    """A copy of the branch and its bundles, to change."""

    repository: Repository
    bundles: Path
    landings: Landings

    def walk(self, *words: str) -> tuple[int, list[str]]:
        """Exit code of the script, and its lines."""
        argv = ["sh", str(SCRIPT), *(words or (self.repository.url, "main", str(self.bundles)))]
        surroundings = {"PATH": os.environ["PATH"], "HOME": str(self.repository.home)}
        done = subprocess.run(argv, env=surroundings, capture_output=True, text=True, check=False)
        return done.returncode, (done.stdout + done.stderr).splitlines()

    def bundle(self, name: str) -> Path:
        return self.bundles / self.landings.bundles[name].name


@pytest.fixture
def walked(landings: Landings, tmp_path: Path, first_repository: Repository) -> Walked:
    for name in ("target.git", "bundles"):
        source = Path(landings.repository) if name == "target.git" else landings.bundles["before"].parent
        shutil.copytree(source, tmp_path / name)
    return Walked(Repository(tmp_path / "target.git", first_repository.home), tmp_path / "bundles", landings)


def test_every_commit_of_a_queue_is_accepted_and_others_are_listed(walked: Walked) -> None:
    code, lines = walked.walk()
    assert code == 0, lines
    assert [line.split()[0] for line in lines] == 8 * ["ok"] + ["none"]
    history = walked.repository.git("rev-list", "--first-parent", "main").decode().split()
    assert [line.split()[1] for line in lines] == history
    assert [line.split("push ")[1] for line in lines[:-1]] == [f"{push} of its queue" for push in (3, *6 * [2], 1)]


def without(name: str) -> Callable[[Walked], None]:
    return lambda walked: (walked.bundle("after") / name).unlink()


def with_copied_receipt(walked: Walked) -> None:
    """The receipt of another run, and a manifest that lists it."""
    put(walked.bundle("after") / layout.QUEUE_RECEIPT, (walked.bundle("before") / layout.QUEUE_RECEIPT).read_bytes())
    remake_manifest(walked.bundle("after"))


def with_altered_receipt(walked: Walked) -> None:
    path = walked.bundle("after") / layout.QUEUE_RECEIPT
    put(path, path.read_bytes() + b" ")


def with_amended_commit(walked: Walked) -> None:
    """The landed commit once more, with another author and the same tree, parent and message."""
    git = walked.repository.git
    message = git("log", "-1", "--format=%B", "main")
    made = git("commit-tree", "main^{tree}", "-p", "main^", stdin=message).decode().strip()
    git("update-ref", "refs/heads/main", made)


def with_replaced_tree(walked: Walked) -> None:
    """A replacement of git's own hides what was landed; the script must not follow it."""
    git = walked.repository.git
    message = git("log", "-1", "--format=%B", "main~1")
    made = git("commit-tree", "main~1^{tree}", "-p", "main^", stdin=message).decode().strip()
    git("update-ref", "refs/heads/main", made)
    git("replace", made, "main@{1}")


def with_second_trailer(walked: Walked) -> None:
    git = walked.repository.git
    message = b"outside\n\nGatewright-Run: run-1\nGatewright-Run: run-2\n"
    made = git("commit-tree", "main^{tree}", "-p", "main", stdin=message).decode().strip()
    git("update-ref", "refs/heads/main", made)


ATTACKS: dict[str, tuple[Callable[[Walked], None], str]] = {
    "no bundle": (lambda walked: shutil.rmtree(walked.bundle("after")), "it has no bundle"),
    "no manifest": (without(layout.MANIFEST), "it has no bundle"),
    "no receipt": (without(layout.QUEUE_RECEIPT), "its bundle has no receipt"),
    "a receipt that the manifest does not list": (with_altered_receipt, "the manifest does not list this receipt"),
    "the receipt of another run": (with_copied_receipt, "the receipt does not name this commit for the run"),
    "an amended commit": (with_amended_commit, "the receipt does not name this commit for the run"),
    "a commit that git replaces": (with_replaced_tree, "the receipt does not name this commit for the run"),
    "two runs in one commit": (with_second_trailer, "the trailer names no run"),
}


@pytest.mark.every_case
@pytest.mark.parametrize("kind", ATTACKS)
def test_a_landing_that_was_tampered_with_is_the_last_line(walked: Walked, kind: str) -> None:
    attack, words = ATTACKS[kind]
    attack(walked)
    code, lines = walked.walk()
    assert (code, len(lines)) == (1, 1), lines
    assert lines[0].startswith("FAIL")
    assert words in lines[0]


#: Receipts that the script refuses although the manifest lists them. `gatewright verify` refuses all of ``TAMPERED``.
REFUSED = (
    "another order", "another result", "another policy", "another tree on the way", "no positions", "no report", "a red report",
    "a report that is not there", "a report of another tree", "a report of another queue", "a report of another policy",
    "a red report that is called green", "a command that did not run", "a commit left out", "a commit on another parent",
    "a commit of another run", "an altered commit", "a commit that is missing",
)  # fmt: skip


@pytest.mark.every_case
@pytest.mark.parametrize("kind", REFUSED)
def test_a_tampered_receipt_in_a_manifest_made_again_is_refused(walked: Walked, kind: str) -> None:
    for name in RUNS:
        bundle = walked.bundle(name)
        document = TAMPERED[kind][0](read_receipt((bundle / layout.QUEUE_RECEIPT).read_bytes()))
        put(bundle / layout.QUEUE_RECEIPT, codec.encode(document))
        remake_manifest(bundle)
    code, lines = walked.walk()
    assert code == 1, lines
    assert lines[-1].startswith("FAIL")


@pytest.mark.every_case
@pytest.mark.parametrize("words", [("x",), ("{repository}", "other", "{bundles}"), ("{repository}", "main", "nowhere")])
def test_wrong_use_exits_2(walked: Walked, words: tuple[str, ...]) -> None:
    known: dict[str, Any] = {"repository": walked.repository.url, "bundles": walked.bundles}
    code, lines = walked.walk(*(word.format(**known) for word in words))
    assert (code, len(lines)) == (2, 1), json.dumps(lines)
