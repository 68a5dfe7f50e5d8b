"""A start on a busy host is waited for as long as it gets on."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

from gatewright.app.stack.processes import cpu_seconds
from gatewright.app.stack.start_patience import StartPatience
from tests.waiting import wait_until


class Times:
    """A clock that a test sets."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_start_that_gets_on_is_waited_for_beyond_the_usual_time() -> None:
    times = Times()
    patience = StartPatience(30.0, 120.0, times)
    for step in range(1, 5):
        times.now += 25.0
        assert not patience.is_over(partial(float, step))
    assert patience.waited == 100.0


def test_a_start_that_stands_still_is_given_up() -> None:
    times = Times()
    patience = StartPatience(30.0, 120.0, times)
    assert not patience.is_over(lambda: 5.0)
    times.now += 29.0
    assert not patience.is_over(lambda: 5.9)
    times.now += 1.0
    assert patience.is_over(lambda: 5.9)


def test_a_start_that_never_ends_is_given_up() -> None:
    times = Times()
    patience = StartPatience(30.0, 120.0, times)
    progress = 0.0
    while times.now < 219.0:
        times.now += 10.0
        progress += 1.0
        over = patience.is_over(partial(float, progress))
    assert over


def test_processor_time_of_all_that_lives_below_counts() -> None:
    words = "import subprocess, sys; subprocess.run((sys.executable, '-c', 'while True: pass'))"
    with subprocess.Popen((sys.executable, "-c", words), start_new_session=True) as parent:
        try:
            before = cpu_seconds(parent.pid)
            assert wait_until(lambda: cpu_seconds(parent.pid) > before + 0.3)
        finally:
            subprocess.run(("kill", "-9", "--", f"-{parent.pid}"), check=True)
