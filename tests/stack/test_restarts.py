"""When a process is started again, and when not."""

from __future__ import annotations

from gatewright.app.stack.supervised_process import RestartPolicy, RestartRecord

POLICY = RestartPolicy(patience=4, settled=5.0, pause=0.1, longest=0.3)


def die(*ages: float) -> RestartRecord:
    record = RestartRecord()
    for age in ages:
        record = record.died(POLICY, age)
    return record


def test_process_that_was_killed_once_starts_again_at_once() -> None:
    assert die(60.0).delay(POLICY) == 0.0
    assert die(1.0).delay(POLICY) == 0.0


def test_pause_doubles_with_quick_deaths_up_to_a_limit() -> None:
    delays = [die(*[0.1] * count).delay(POLICY) for count in (1, 2, 3, 4, 5)]
    assert delays == [0.0, 0.1, 0.2, 0.3, 0.3]


def test_quick_deaths_in_a_row_end_the_patience() -> None:
    assert not die(0.1, 0.1, 0.1).hopeless(POLICY)
    assert die(0.1, 0.1, 0.1, 0.1).hopeless(POLICY)


def test_a_long_life_restores_the_patience_but_every_restart_counts() -> None:
    record = die(0.1, 0.1, 0.1, 60.0, 0.1, 0.1, 0.1)
    assert not record.hopeless(POLICY)
    assert record.restarts == 7
