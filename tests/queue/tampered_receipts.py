"""Receipts that were tampered with. A receipt with at least two positions, of which the first has two runs, gives them all."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from gatewright.contracts.queue_policy import QueuePolicy
from gatewright.contracts.queue_receipt import Blob, GitObject, PositionReport, QueueReceipt, Tip
from gatewright.queue.receipt import report_digest
from tests.queue.reports import command, part
from tests.queue.world import World, digest, write

OTHER = Tip(commit=digest("other"), tree=digest("other tree"))
Tamper = Callable[[QueueReceipt], QueueReceipt]


def at(document: QueueReceipt, index: int, **changes: object) -> QueueReceipt:
    positions = list(document.positions)
    positions[index] = replace(positions[index], **changes)
    return replace(document, positions=tuple(positions))


def swapped(document: QueueReceipt) -> QueueReceipt:
    first, second, *others = document.positions
    return replace(document, positions=(second, first, *others))


def without_a_run(document: QueueReceipt) -> QueueReceipt:
    position = document.positions[0]
    return at(document, 0, runs=position.runs[1:], commits=position.commits[1:])


def with_report(make: Callable[[PositionReport], PositionReport]) -> Tamper:
    """Another report of the last position, whose digest the position names."""

    def tamper(document: QueueReceipt) -> QueueReceipt:
        made = make(next(each for each in document.reports if report_digest(each) == document.positions[-1].report_sha256))
        others = tuple(each for each in document.reports if report_digest(each) != document.positions[-1].report_sha256)
        return at(replace(document, reports=(*others, made)), -1, report_sha256=report_digest(made))

    return tamper


def without_a_command(report: PositionReport) -> PositionReport:
    first, *others = report.parts
    return replace(report, parts=(replace(first, report=replace(first.report, commands=())), *others))


def turned_green(document: QueueReceipt) -> QueueReceipt:
    """A red report of the landed tree that claims to have passed."""
    red = part(document.after.tree, *(command(each, exit_code=1) for each in document.commits()))
    return with_report(lambda report: replace(report, parts=(red,)))(document)


def with_object(kind: str, change: Callable[[GitObject], GitObject | None]) -> Tamper:
    def tamper(document: QueueReceipt) -> QueueReceipt:
        chosen = [each for each in document.objects if each.kind == kind][-1]
        altered = change(chosen)
        kept = tuple(each for each in document.objects if each != chosen)
        return replace(document, objects=kept if altered is None else (*kept, altered))

    return tamper


def with_other_parent(document: QueueReceipt) -> QueueReceipt:
    """The last commit on top of another one, and everything that names it."""
    world = World(QueuePolicy())
    last = document.positions[-1]
    made = world.git.commit(document.after.tree, OTHER.commit, f"Change\n\nGatewright-Run: {last.runs[-1]}\n")
    moved = at(document, -1, commits=(*last.commits[:-1], made))
    return replace(moved, after=Tip(commit=made, tree=last.tree), objects=(*document.objects, world.git.objects[made]))


def of_other_run(document: QueueReceipt) -> QueueReceipt:
    """The first commit, with the same tree and parent, in the name of another run."""
    world = World(QueuePolicy())
    first = document.positions[0]
    tree = next(
        each for each in document.objects if each.kind == "commit" and first.runs[0].encode() in each.data
    ).data.split()[1]
    made = world.git.commit(tree.decode(), document.before.commit, f"Change\n\nGatewright-Run: {first.runs[1]}\n")
    moved = at(document, 0, commits=(made, *first.commits[1:]))
    return replace(moved, objects=(*document.objects, world.git.objects[made]))


def changed(*changes: object, number: int = 1) -> Tamper:
    """Other changes of the run with this number in the receipt."""

    def tamper(document: QueueReceipt) -> QueueReceipt:
        run_id = [*document.commits(), "run-unknown"][number]
        return replace(document, changes={**document.changes, run_id: changes})

    return tamper


def of_second_run(document: QueueReceipt) -> QueueReceipt:
    """The first run with the change of the second one."""
    first, second, *_ = document.commits()
    return replace(document, changes={**document.changes, first: document.changes[second]})


def with_all(**facts: object) -> Tamper:
    """Other facts in the receipt and in each of its reports, which the positions name again."""

    def tamper(document: QueueReceipt) -> QueueReceipt:
        made = {report_digest(each): replace(each, **facts) for each in document.reports}
        digests = {old: report_digest(report) for old, report in made.items()}
        positions = (replace(each, report_sha256=digests.get(each.report_sha256, "")) for each in document.positions)
        return replace(document, **facts, positions=tuple(positions), reports=tuple(made.values()))

    return tamper


FOLDER = Blob(mode="40000", object_id=digest("folder"))
#: What is changed, and the pointer of a fault that it must give.
TAMPERED: dict[str, tuple[Tamper, str]] = {
    "another repository": (lambda r: replace(r, repository="elsewhere"), "/repository"),
    "another branch": (lambda r: replace(r, branch="elsewhere"), "/branch"),
    "another queue": (with_all(repository="elsewhere", branch="refs/heads/other"), "/repository"),
    "another base": (lambda r: replace(r, before=OTHER), "/before"),
    "another tree of the base": (lambda r: replace(r, before=replace(r.before, tree=OTHER.tree)), "/before"),
    "another result": (lambda r: replace(r, after=OTHER), "/after"),
    "another policy": (lambda r: replace(r, policy_sha256="b" * 64), "/positions/2/report_sha256"),
    "another order": (swapped, "/positions/0"),
    "another order of runs": (lambda r: at(r, 0, runs=r.positions[0].runs[::-1]), "/positions/0/commits"),
    "a run left out": (without_a_run, "/positions/0/commits"),
    "a run twice": (lambda r: at(r, 1, runs=r.positions[0].runs), "/positions/1/runs"),
    "an unknown run": (lambda r: at(r, 0, runs=(r.positions[0].runs[0], "run-unknown")), "/changes"),
    "another tree on the way": (lambda r: at(r, 0, tree=OTHER.tree), "/positions/0/tree"),
    "no report": (lambda r: at(r, -1, report_sha256=""), "/positions/2/outcome"),
    "a report that is not there": (lambda r: at(r, -1, report_sha256="c" * 64), "/reports"),
    "a report of another tree": (with_report(lambda p: replace(p, tree=OTHER.tree)), "/positions/2/report_sha256"),
    "a report of another queue": (with_report(lambda p: replace(p, branch="other")), "/positions/2/report_sha256"),
    "a report of another policy": (with_report(lambda p: replace(p, policy_sha256="b" * 64)), "/positions/2/report_sha256"),
    "a red report": (lambda r: at(r, -1, outcome="failed"), "/positions/2/outcome"),
    "a red report that is called green": (turned_green, "/positions/2/outcome"),
    "a command that did not run": (with_report(without_a_command), "/positions/2/outcome"),
    "a part left out": (with_report(lambda p: replace(p, parts=p.parts[1:])), "/reports"),
    "an assumption that failed": (lambda r: at(r, 1, resolved=("landed", "tests_failed")), "/positions/1/resolved"),
    "an assumption that is not resolved": (lambda r: at(r, 1, resolved=()), "/positions/1/resolved"),
    "an assumption left out": (lambda r: at(r, 1, ahead=(), resolved=()), "/positions/1"),
    "a commit left out": (lambda r: at(r, 0, commits=r.positions[0].commits[1:]), "/positions/0/commits"),
    "a commit on another parent": (with_other_parent, "/positions/2/commits"),
    "a commit of another run": (of_other_run, "/positions/0/commits"),
    "the change of another run": (of_second_run, "/changes/"),
    "another change of a run ahead": (changed(write("src/other.py", "x")), "/positions/0/commits"),
    "a change that conflicts": (changed(write("src/kept.py", "z", before="w")), "/positions/0/commits"),
    "a folder in place of a file": (
        changed(replace(write("s", "x"), new=FOLDER)),
        "/positions/0/commits",
    ),
    "a path that git has not": (changed(write("src/../a", "x")), "/positions/0/commits"),
    "changes of a run that did not land": (changed(write("x", "x"), number=-1), "/changes"),
    "an altered commit": (with_object("commit", lambda o: replace(o, data=o.data + b"\n")), "/positions"),
    "a commit that is missing": (with_object("commit", lambda _: None), "/positions"),
    "an altered tree": (with_object("tree", lambda o: replace(o, data=o.data[:-1] + b"x")), "/positions/0/commits"),
    "a tree that is missing": (with_object("tree", lambda _: None), "/positions/0/commits"),
    "no positions": (lambda r: replace(r, positions=()), "/positions"),
}
