"""Questions to a child process: answered, given up at a deadline or a memory, dropped with the caller."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path

import pytest

from gatewright.bounded.judge import BeyondLimitError, BoundedJudge, ProcessBounds
from gatewright.errors import GatewrightError

PLENTY = ProcessBounds(seconds=60.0)


def judge(name: str, bounds: ProcessBounds = PLENTY) -> BoundedJudge:
    return BoundedJudge(f"tests.bounded.questions:{name}", bounds)


def children() -> set[int]:
    """The children of this process that serve questions."""
    found = set()
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
            if b"gatewright.bounded" in words and f"PPid:\t{os.getpid()}\n" in (entry / "status").read_text():
                found.add(int(entry.name))
    return found


async def test_a_child_answers_one_question_after_the_other() -> None:
    asked = judge("who")
    first, second = await asked.ask(b""), await asked.ask(b"")
    assert first == second
    assert int(first.split()[0]) != os.getpid()


async def test_a_large_question_and_a_large_answer_pass() -> None:
    assert await judge("shout").ask(b"x" * 40_000_000) == b"X" * 40_000_000


async def test_what_the_child_prints_is_no_answer() -> None:
    assert await judge("chatter").ask(b"this") == b"this"


async def test_a_child_has_no_settings_and_no_secrets_in_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWRIGHT_NATS_SEED", "/somewhere")
    assert b"GATEWRIGHT" not in await judge("who").ask(b"")


@pytest.mark.long
async def test_an_endless_judgement_is_given_up_and_its_child_is_gone() -> None:
    before = children()
    asked = judge("forever", ProcessBounds(seconds=3.0))
    with pytest.raises(BeyondLimitError, match="not judged within 3 s"):
        await asked.ask(b"go")
    assert children() <= before
    assert await asked.ask(b"answer") == b"answer"


async def test_a_judgement_that_is_cancelled_kills_its_child_at_once() -> None:
    before = children()
    asking = asyncio.create_task(judge("forever").ask(b"go"))
    while not children() - before:  # noqa: ASYNC110 - it is another process
        await asyncio.sleep(0.01)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert children() <= before


async def test_a_judgement_that_exhausts_memory_is_refused_as_such() -> None:
    with pytest.raises(BeyondLimitError, match="memory"):
        await judge("devour", ProcessBounds(seconds=60.0, memory=1 << 30)).ask(b"%d" % (2 << 30))


async def test_a_defect_is_no_limit() -> None:
    asked = judge("break_down")
    with pytest.raises(GatewrightError) as caught:
        await asked.ask(b"x")
    assert caught.value.reason == "judgement_failed"


async def test_questions_do_not_wait_for_one_that_never_ends() -> None:
    asked = judge("forever", ProcessBounds(seconds=30.0))
    endless = asyncio.create_task(asked.ask(b"go"))
    assert await asyncio.gather(*(asked.ask(b"answer") for _ in range(3))) == [b"answer"] * 3
    assert not endless.done()
    endless.cancel()
    with pytest.raises(asyncio.CancelledError):
        await endless


async def test_a_child_that_died_while_idle_is_replaced() -> None:
    asked = judge("who")
    pid = int((await asked.ask(b"")).split()[0])
    os.kill(pid, 9)
    while pid in children():  # noqa: ASYNC110 - it is another process
        await asyncio.sleep(0.01)
    assert int((await asked.ask(b"")).split()[0]) != pid
