"""What publishers, changes and test results may try, and what the queue makes of it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from gatewright.contracts.queue_policy import HoldConditions, QueuePolicy, Window
from gatewright.contracts.queue_receipt import Change
from gatewright.queue import events as e
from gatewright.queue.commands import Compose, Land, Test
from gatewright.queue.inputs import Enqueue, Landed, PolicyMissing, Tested, Tick
from gatewright.queue.state import Entry
from tests.queue.invariants import check_all, departures, landings
from tests.queue.world import DIGEST, Truth, World, blob, digest, entry, write

POLICY = QueuePolicy(batch_size=4, window=Window(start=2, most=4))
A, B, C, D = (f"run-0000{letter}" for letter in "abcd")
REPORT = "f" * 64


def world_of(*runs: str, truth: Truth | None = None, policy: QueuePolicy = POLICY) -> World:
    world = World(policy, truth)
    world.enqueue(*(entry(run_id) for run_id in runs))
    return world


def order_of(world: World) -> list[str]:
    """The runs in the order in which they landed."""
    return [run_id for event in landings(world) for run_id in event.runs]


def step(world: World, kind: type[Compose | Test | Land]) -> None:
    """Carry out the first command of that kind, and what must come before it."""
    while True:
        command = world.due()[0]
        world.deliver(world.carry_out(command))
        if isinstance(command, kind):
            return


def first_test(world: World) -> Test:
    """The first test that is due, and not carried out."""
    while not isinstance(command := next(each for each in world.due() if not isinstance(each, Land)), Test):
        world.deliver(world.carry_out(command))
    return command


def test_rename_smuggling_does_not_land() -> None:
    world = World(POLICY, files={"dir/f1": "x"})
    rename = entry(A, Change(path="dir/f1", old=blob("x")), Change(path="newdir/f1", new=blob("x")))
    world.enqueue(rename, entry(B, write("dir/f1", "smuggled", before="x")))
    world.run()
    (left,) = departures(world)
    assert (left.run_id, left.code, left.against, left.paths) == (B, "conflict_with_ahead", A, ("dir/f1",))
    assert world.trees[world.branch.tree] == {"newdir/f1": blob("x")}


def test_a_poison_entry_that_hangs_leaves_by_timeout() -> None:
    world = world_of(A, B, C, truth=Truth(hanging=frozenset({B}))).run()
    (left,) = departures(world)
    assert (left.run_id, left.code) == (B, "tests_timed_out")
    assert order_of(world) == [A, C]


def test_an_innocent_behind_a_broken_entry_is_not_evicted() -> None:
    world = world_of(A, B, C, D, truth=Truth(bad=frozenset({B})), policy=replace(POLICY, batch_size=1)).run()
    (left,) = departures(world)
    assert (left.run_id, left.code, left.tests) == (B, "tests_failed", (f"tests/{B}",))
    assert order_of(world) == [A, C, D]
    check_all(world)


def test_a_run_that_needs_another_run_never_lands_alone() -> None:
    world = world_of(A, B, truth=Truth(together=frozenset({(A, B)}))).run()
    assert order_of(world) == [A]
    assert [left.run_id for left in departures(world)] == [B]


def test_many_tiny_entries_of_one_publisher_do_not_starve_others() -> None:
    policy = QueuePolicy(batch_size=2, window=Window(start=2, most=2))
    world = World(policy)
    world.enqueue(*(entry(f"flood-{number:03}", publisher="flooder") for number in range(40)))
    world.enqueue(entry(A, publisher="other"), entry(B, publisher="third"))
    world.run()
    assert max(order_of(world).index(A), order_of(world).index(B)) <= 4 + 2
    check_all(world)


def test_a_publisher_cannot_raise_its_own_lane() -> None:
    policy = QueuePolicy(lanes={"trusted": "high", "slow": "low"})
    world = world_of(policy=policy)
    asked = [("trusted", "high"), ("default", "high"), ("slow", "high"), ("trusted", "low")]
    world.enqueue(*(entry(f"run-0000{n}", publisher=who, asked=lane) for n, (who, lane) in enumerate(asked)))
    forged = entry("run-forged", publisher="default", lane="high")
    world.deliver(Enqueue(forged))
    given = [queued.entry.lane for queued in world.queue.entries.values()]
    assert sorted(given) == sorted(["high", "normal", "low", "low", "normal"])


def test_a_fast_lane_overtakes_an_entry_only_so_often() -> None:
    policy = QueuePolicy(batch_size=1, window=Window(start=1, most=1), lanes={"fast": "high"}, overtaken_at_most=3)
    world = world_of(A, B, policy=policy)
    world.enqueue(*(entry(f"fast-{number:03}", publisher="fast", asked="high") for number in range(9)))
    world.run()
    assert order_of(world).index(B) == 1 + 3
    check_all(world)


def test_what_is_landing_can_be_neither_removed_nor_moved() -> None:
    world = world_of(A, B)
    step(world, Test)
    assert world.queue.landing
    assert world.deliver(e.EntryLeft(run_id=A, code="aborted")) == ()
    assert world.deliver(e.EntryMoved(run_id=A, ahead_of="", by="person")) == ()
    assert world.deliver(e.PolicyChanged(policy_sha256="b" * 64, window=1)) == ()
    assert order_of(world.run()) == [A, B]


def test_an_aborted_entry_does_not_land_with_a_running_test() -> None:
    world = world_of(A, policy=replace(POLICY, batch_size=1))
    command = first_test(world)
    world.deliver(e.EntryLeft(run_id=A, code="aborted", by="person"))
    assert world.deliver(world.carry_out(command)) == ()
    assert order_of(world.run()) == []
    assert world.deliver(Enqueue(entry(A))) == ()


@pytest.mark.parametrize(
    "forged",
    [
        {"tree": digest("another")},
        {"policy_sha256": "b" * 64},
        {"report_sha256": ""},
        {"failed": ("tests/one",)},
        {"outcome": "infrastructure"},
    ],
)
def test_a_forged_or_missing_report_is_not_green_and_evicts_nothing(forged: dict[str, object]) -> None:
    world = world_of(A)
    test = first_test(world)
    facts = {"outcome": "passed", "report_sha256": REPORT, "policy_sha256": DIGEST, "tree": test.tree, **forged}
    world.deliver(Tested(test.number, **facts))  # type: ignore[arg-type]
    assert world.queue.entries.keys() == {A}
    assert not world.queue.landing
    assert world.queue.tests[test.tree].number == test.number + 1


def test_lost_tests_hold_the_queue_and_evict_nothing() -> None:
    world = world_of(A, policy=replace(POLICY, hold=HoldConditions(lost_tests=2)))
    first_test(world)
    for _ in range(2):
        world.now += timedelta(seconds=POLICY.timeouts.report_s)
        world.deliver(Tick())
    assert world.queue.held == "infrastructure"
    assert world.due() == []
    world.deliver(e.QueueResumed(by="person"))
    assert order_of(world.run()) == [A]


def test_a_red_branch_holds_the_queue_and_evicts_nothing() -> None:
    world = World(POLICY, Truth(bad=frozenset({B})))
    world.entries[B] = entry(B)
    world.deliver(world.push(write(f"src/{B}.py", B)))
    world.enqueue(entry(A))
    world.run()
    assert world.queue.held == "repeated_red"
    assert world.queue.entries.keys() == {A}
    world.truth.bad = frozenset()
    world.deliver(e.QueueResumed(by="person"))
    assert order_of(world.run()) == [A]


def test_an_environment_that_breaks_holds_the_queue_after_some_red_entries() -> None:
    runs = tuple(f"run-{number:05}" for number in range(12))
    policy = QueuePolicy(batch_size=1, window=Window(start=1, most=1), hold=HoldConditions(red_entries=3))
    world = world_of(*runs, policy=policy)
    while not world.queue.held:
        test = first_test(world)
        world.deliver(
            Tested(test.number, test.tree, DIGEST, "failed" if test.runs or world.queue.red_entries else "passed", (), REPORT)
        )
    assert world.queue.held == "repeated_red"
    assert len(list(departures(world))) == 3


def test_a_force_push_under_the_queue_holds_it_and_is_never_overwritten() -> None:
    world = world_of(A)
    step(world, Test)
    world.deliver(world.push(write("rewritten", "x"), descends=False))
    assert world.queue.held == "target_rewritten"
    assert world.due() == []
    world.deliver(e.QueueResumed(by="person"))
    assert order_of(world.run()) == [A]
    assert "rewritten" in world.trees[world.branch.tree]


def test_a_push_between_test_and_landing_refuses_the_landing() -> None:
    world = world_of(A)
    step(world, Test)
    world.push(write("outside", "x"))
    step(world, Land)
    assert order_of(world) == []
    assert order_of(world.run()) == [A]
    assert len(world.tests) == 2


def test_a_landing_seen_as_a_moved_branch_is_recorded_once() -> None:
    world = world_of(A)
    step(world, Test)
    (land,) = [each for each in world.due() if isinstance(each, Land)]
    answer = world.carry_out(land)
    seen = e.BaseMoved(before=land.before, after=world.branch, descends=True)
    assert [event.event_type for event in world.deliver(seen)] == ["position_landed"]
    assert world.deliver(seen) == ()
    assert world.deliver(answer) == ()


def test_an_answer_about_a_landing_of_another_commit_is_ignored() -> None:
    world = world_of(A)
    step(world, Test)
    assert world.deliver(Landed(world.queue.landing, "e" * 40)) == ()
    assert world.deliver(Landed(world.queue.landing + 1, world.queue.line[0].commits[0])) == ()


@pytest.mark.parametrize(("code", "held"), [("denied", "infrastructure"), ("missing", None)])
def test_a_refused_push_holds_the_queue_or_ends_its_entries(code: str, held: str | None) -> None:
    world = world_of(A)
    step(world, Test)
    (land,) = world.due()
    refused = e.LandingRefused(number=world.queue.landing, code=code, detail="a hook")  # type: ignore[arg-type]
    world.done[land.command_id] = refused
    world.deliver(world.carry_out(land))
    assert (world.queue.held, world.queue.hold_detail) == (held, "the push was denied: a hook" if held else "")
    assert [left.code for left in departures(world)] == (["target_missing"] if code == "missing" else [])
    world.deliver(e.QueueResumed(by="person"))
    assert order_of(world.run()) == ([A] if code == "denied" else [])


def test_a_change_that_was_queued_too_often_leaves_at_once() -> None:
    world = world_of(policy=POLICY)
    world.enqueue(entry(A, requeues=2), entry(B, requeues=3))
    assert [left.run_id for left in departures(world) if left.code == "requeue_exhausted"] == [B]
    assert order_of(world.run()) == [A]


def test_a_passing_test_of_a_policy_that_is_gone_does_not_count() -> None:
    world = world_of(A)
    test = first_test(world)
    world.deliver(e.PolicyChanged(policy_sha256="b" * 64, window=1))
    assert world.deliver(world.carry_out(test)) == ()
    assert order_of(world.run()) == [A]
    assert [each.policy_sha256 for each in world.tests] == [DIGEST, "b" * 64]


def test_every_run_leaves_when_no_policy_covers_the_branch() -> None:
    world = world_of(A, B)
    first_test(world)
    assert len(world.deliver(PolicyMissing())) == 2
    assert {left.run_id: left.code for left in departures(world)} == {A: "policy_changed", B: "policy_changed"}
    assert world.deliver(PolicyMissing()) == ()
    assert world.due() == []


def test_a_push_under_way_ends_before_its_runs_leave_without_a_policy() -> None:
    world = world_of(A, policy=replace(POLICY, batch_size=1))
    step(world, Test)
    world.enqueue(entry(B))
    assert [event.event_type for event in world.deliver(PolicyMissing())] == ["entry_left"]
    assert order_of(world.run()) == [A]
    assert [left.run_id for left in departures(world)] == [B]
    check_all(world)


def test_a_run_that_is_repeated_leaves_when_the_new_one_enters() -> None:
    world = world_of(A, B)
    first_test(world)
    world.enqueue(entry(C, write(f"src/{A}.py", "corrected"), requeues=1, repeats=A))
    (left,) = departures(world)
    assert (left.run_id, left.code, left.against) == (A, "superseded", C)
    assert order_of(world.run()) == [B, C]
    check_all(world)


def test_a_run_that_is_landing_is_not_replaced() -> None:
    world = world_of(A)
    step(world, Test)
    world.enqueue(entry(B, repeats=A))
    assert list(departures(world)) == []
    assert order_of(world.run()) == [A, B]


@pytest.mark.parametrize("forged", [{"publisher": "other"}, {"requeues": 3}, {"repeats": C}, {"repeats": B}])
def test_an_entry_replaces_no_run_of_another_publisher_and_none_without_entering(forged: dict[str, object]) -> None:
    world = world_of(A)
    world.enqueue(entry(B, **{"repeats": A, **forged}))  # type: ignore[arg-type]
    assert A not in world.queue.ended
    assert order_of(world.run())[0] == A


def test_a_flaky_run_leaves_after_the_permitted_number_of_tests() -> None:
    policy = replace(POLICY, batch_size=1, window=Window(start=1, most=1), red_reports=50, tests_of_entry=5)
    world = world_of(A, B, truth=Truth(flaky={A: 100}), policy=policy).run()
    (left,) = departures(world)
    assert (left.run_id, left.code) == (A, "budget_exceeded")
    assert [test.runs for test in world.tests].count((A,)) == 5
    assert order_of(world) == [B]


def test_tests_for_a_cause_outside_a_run_do_not_count_against_it() -> None:
    """Lost tests, tests before an outside push, and tests of a red run ahead: the run is green, and lands."""
    policy = replace(POLICY, tests_of_entry=1, hold=HoldConditions(lost_tests=9))
    world = world_of(A, B, C, truth=Truth(bad=frozenset({A})), policy=policy)
    test = first_test(world)
    world.deliver(Tested(test.number, test.tree, test.policy_sha256, "infrastructure"))
    assert [each.tests for each in world.queue.entries.values()] == [0, 0, 0]
    step(world, Test)
    assert [each.tests for each in world.queue.entries.values()] == [1, 0, 0]
    world.deliver(world.push(write("outside", "x")))
    assert [each.tests for each in world.queue.entries.values()] == [0, 0, 0]
    world.run()
    assert order_of(world) == [B, C]
    assert [left.run_id for left in departures(world)] == [A]


def flaky_line(policy: str) -> World:
    """Two positions of which the first one fails once, and the second one, which contains it, passes."""
    chosen = replace(POLICY, batch_size=1, flaky=policy)
    world = world_of(A, B, policy=chosen)
    while composing := [each for each in world.due() if isinstance(each, Compose)]:
        world.deliver(world.carry_out(composing[0]))
    first = first_test(world)
    world.deliver(world.answer(first, "tests/flaky"))
    return world


def test_a_green_successor_reveals_a_flake_and_causes_a_retest() -> None:
    world = flaky_line("retest")
    red = world.queue.line[0].tree
    world.run()
    (flake,) = [event for event in world.history if isinstance(event, e.FlakeRecorded)]
    assert (flake.tree, flake.tests) == (red, ("tests/flaky",))
    assert [event.runs for event in landings(world)] == [(A, B)]
    assert [each.tree for each in world.tests].count(red) == 1


def test_a_permitted_green_successor_lands_without_a_second_test() -> None:
    world = flaky_line("accept_successor")
    red = world.queue.line[0].tree
    world.run()
    assert [event.runs for event in landings(world)] == [(A, B)]
    assert red not in [each.tree for each in world.tests]


def test_entries_that_write_the_same_do_not_disturb_each_other() -> None:
    world = World(POLICY)
    same: tuple[Entry, ...] = (entry(A, write("shared", "x")), entry(B, write("shared", "x")))
    world.enqueue(*same)
    world.run()
    assert order_of(world) == [A, B]
    assert len(world.tests) == 1
