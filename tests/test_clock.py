"""The clock of the services: it follows the machine's without ever jumping."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from gatewright.clock import SteadyClock

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = 1_000_000_000
DAY = 86_400


class Machine:
    """Its wall clock can be set; its ticks only pass."""

    def __init__(self) -> None:
        self.wall = int(BEGIN.timestamp()) * SECOND
        self.ticks = 5 * SECOND
        self.clock = SteadyClock(rate=0.01, wall=lambda: self.wall, ticks=lambda: self.ticks)

    def passes(self, seconds: float) -> timedelta:
        """Let time pass; how much of it the clock shows."""
        before = self.clock.now()
        self.wall += int(seconds * SECOND)
        self.ticks += int(seconds * SECOND)
        return self.clock.now() - before


def test_it_shows_what_an_honest_machine_shows() -> None:
    machine = Machine()
    for seconds in (0.001, 1.0, 3600.0):
        assert machine.passes(seconds) == timedelta(seconds=seconds)
    assert machine.clock.now() == BEGIN + timedelta(seconds=3601.001)


def test_a_day_forwards_is_not_taken_for_a_day() -> None:
    machine = Machine()
    machine.wall += DAY * SECOND
    assert machine.passes(3600.0) == timedelta(seconds=3636)


def test_a_day_back_does_not_stop_it() -> None:
    machine = Machine()
    machine.wall -= DAY * SECOND
    assert machine.passes(3600.0) == timedelta(seconds=3564)


def test_a_small_correction_is_taken_over_and_no_more_than_that() -> None:
    machine = Machine()
    machine.wall += 2 * SECOND
    assert machine.passes(100.0) == timedelta(seconds=101)
    assert machine.passes(100.0) == timedelta(seconds=101)
    assert machine.passes(100.0) == timedelta(seconds=100)


def test_it_never_goes_back() -> None:
    machine = Machine()
    shown = [machine.clock.now()]
    for number in range(200):
        machine.wall += (-1) ** number * number * 100 * SECOND
        machine.ticks += number % 3 * SECOND
        shown.append(machine.clock.now())
    assert shown == sorted(shown)


def test_the_clock_of_this_machine() -> None:
    assert abs(SteadyClock().now() - datetime.now(UTC)) < timedelta(seconds=1)
