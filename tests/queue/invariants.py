"""The invariants of the queue, one function each, over a world that has come to rest (or not, where it does not matter)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from gatewright.contracts.queue_receipt import Blob
from gatewright.queue import events as e
from gatewright.queue.commands import commands
from tests.queue.world import World

ROOT = Path(__file__).resolve().parents[2]


def landings(world: World) -> Iterator[e.PositionLanded]:
    return (event for event in world.history if isinstance(event, e.PositionLanded))


def departures(world: World) -> Iterator[e.EntryLeft]:
    return (event for event in world.history if isinstance(event, e.EntryLeft))


def every_value_of_the_branch_has_a_passed_report_for_its_tree_and_policy(world: World) -> None:
    """1. And no tree that is red in truth lands."""
    digest = ""
    for event in world.history:
        if isinstance(event, e.QueueCreated | e.PolicyChanged):
            digest = event.policy_sha256
        if isinstance(event, e.PositionLanded):
            report = world.reports[event.report_sha256]
            assert (report.tree, report.policy_sha256, report.outcome) == (event.after.tree, digest, "passed")
            assert not world.is_red(event.after.tree)


def the_branch_moves_only_from_the_base_of_what_lands(world: World) -> None:
    """2. And every push of the queue is recorded once."""
    own = [(event.before.commit, event.after.commit) for event in landings(world)]
    assert len(set(own)) == len(own)
    assert set(own) <= set(world.pushes)
    assert all(one[1] == following[0] for one, following in zip(world.pushes, world.pushes[1:], strict=False))


def differences(world: World, run_commit: str) -> dict[str, tuple[Blob | None, Blob | None]]:
    """What a commit changes, by path."""
    parent = world.parents[run_commit]
    assert parent is not None
    before, after = world.trees[parent.tree], world.trees[world.tree_at[run_commit]]
    paths = before.keys() | after.keys()
    return {path: (before.get(path), after.get(path)) for path in paths if before.get(path) != after.get(path)}


def commits(world: World) -> Iterator[tuple[str, str]]:
    """Landed runs and their commits."""
    for document in world.receipts:
        for position in document.positions:
            yield from zip(position.runs, position.commits, strict=True)


def a_commit_changes_only_paths_of_its_run(world: World) -> None:
    """3."""
    for run_id, commit in commits(world):
        assert differences(world, commit).keys() <= {change.path for change in world.entries[run_id].changes}


def every_entry_ends_exactly_once(world: World) -> None:
    """5. At rest, unless the queue is held."""
    ends = [run_id for event in landings(world) for run_id in event.runs] + [event.run_id for event in departures(world)]
    assert len(set(ends)) == len(ends)
    assert set(ends) == world.queue.ended.keys()
    assert world.queue.held or set(ends) == world.entries.keys()


def no_entry_ends_for_a_cause_outside_itself_or_what_is_ahead(world: World) -> None:
    """6. The one that leaves because of its tests is the culprit; a conflict is with what landed before."""
    landed: set[str] = set()
    for event in world.history:
        if isinstance(event, e.PositionLanded):
            landed.update(event.runs)
        if not isinstance(event, e.EntryLeft):
            continue
        if event.code == "tests_failed":
            pairs = {pair for pair in world.truth.together if event.run_id in pair and landed & set(pair)}
            assert event.run_id in world.truth.bad or pairs
        elif event.code == "tests_timed_out":
            assert event.run_id in world.truth.hanging
        elif event.code == "conflict_with_ahead" and event.against:
            ahead = {change.path for change in world.entries[event.against].changes}
            assert event.against in landed
            assert ahead & {change.path for change in world.entries[event.run_id].changes}


def only_a_full_report_is_green(world: World) -> None:
    """7."""
    for tree, result in world.queue.results.items():
        if result.green:
            assert world.reports[result.report_sha256].outcome == "passed"
            assert world.reports[result.report_sha256].tree == tree


def an_entry_is_overtaken_at_most_as_often_as_the_policy_permits(world: World) -> None:
    """8."""
    enqueued: list[str] = []
    passed: dict[str, int] = {}
    for event in world.history:
        if isinstance(event, e.EntryEnqueued):
            enqueued.append(event.entry.run_id)
        ended = event.runs if isinstance(event, e.PositionLanded) else ()
        for run_id in ended:
            for earlier in enqueued[: enqueued.index(run_id)]:
                if earlier not in ended:
                    passed[earlier] = passed.get(earlier, 0) + 1
            enqueued.remove(run_id)
        if isinstance(event, e.EntryLeft):
            enqueued.remove(event.run_id)
    assert max(passed.values(), default=0) <= world.policy.overtaken_at_most


def the_same_events_give_the_same_state_and_commands(world: World) -> None:
    """9. Also after they were written and read."""
    written = [(event.event_type, msgspec.json.encode(event)) for event in world.history]
    read = [msgspec.json.decode(text, type=e.EVENTS[name]) for name, text in written]
    assert read == world.history
    restored = e.fold(read)
    assert restored == world.queue
    assert restored is not None
    assert commands(restored, world.policy) == commands(world.queue, world.policy)


def an_approval_never_widens(world: World) -> None:
    """10. What lands of a run are pairs of blobs that were approved with it."""
    for run_id, commit in commits(world):
        pairs = {change.path: (change.old, change.new) for change in world.entries[run_id].changes}
        assert all(pairs[path] == pair for path, pair in differences(world, commit).items())


#: Modules that show queues, judge and pass on actions of operators, pass on answers of test runners, keep their artifacts, or
#: judge landings.
USE_QUEUES = frozenset(
    {
        "services/gatekeeper/intake/exhausted_tasks.py",
        "services/gatekeeper/intake/merge_queries.py",
        "services/gatekeeper/intake/result_consumer.py",
        "services/gatekeeper/run_metrics.py",
        "services/testrunner/handler.py",
        "shared/gatewright/app/retention/references.py",
        "shared/gatewright/evidence/verification/consistency/queue_receipt.py",
        "shared/gatewright/rules/merge_actions.py",
        "shared/gatewright/rules/reports/position.py",
        "shared/gatewright/rules/reports/receipt.py",
        "shared/gatewright/view/merge_queue.py",
    }
)


def without_the_queue_nothing_changes(world: World) -> None:
    """11. The package is used by nothing that decides about a run without a queue."""
    del world
    sources = [path for folder in ("shared/gatewright", "services") for path in (ROOT / folder).rglob("*.py")]
    users = [path for path in sources if "from gatewright.queue" in path.read_text("utf-8") and path.parent.name != "queue"]
    assert {path.relative_to(ROOT).as_posix() for path in users} == USE_QUEUES


#: Invariant 4 is about two writers, and has a test of its own; 11 is about the source, and is checked once.
OF_A_WORLD: tuple[Callable[[World], None], ...] = (
    every_value_of_the_branch_has_a_passed_report_for_its_tree_and_policy,
    the_branch_moves_only_from_the_base_of_what_lands,
    a_commit_changes_only_paths_of_its_run,
    every_entry_ends_exactly_once,
    no_entry_ends_for_a_cause_outside_itself_or_what_is_ahead,
    only_a_full_report_is_green,
    an_entry_is_overtaken_at_most_as_often_as_the_policy_permits,
    the_same_events_give_the_same_state_and_commands,
    an_approval_never_widens,
)


def check_all(world: World) -> None:
    """Every invariant of a world at rest."""
    for invariant in OF_A_WORLD:
        invariant(world)
