"""A running stack that does not offer an environment: its owner offers it, or is told what to start instead."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from gatewright.app.cli.session import offer_missing
from gatewright.app.stack.state import StackState
from gatewright.app.stack.supervisor import StackOptions
from gatewright.errors import MalformedError
from gatewright.sandbox.offers import OFFERS_FILE, read_offers


def stack_in(home: Path, **changes: object) -> StackState:
    state = StackState(
        pid=1,
        boot="b",
        started=1,
        url="nats://127.0.0.1:1",
        keys="k",
        home=str(home),
        shared=True,
        workers=1,
        environments=("/opt/one", str(home / "environments/*")),
    )
    return msgspec.structs.replace(state, **changes)


def test_a_running_stack_takes_an_environment_that_its_owner_names_later(tmp_path: Path) -> None:
    offers, told = tmp_path / OFFERS_FILE, list[str]()
    state = stack_in(tmp_path, offers=str(offers))
    options = StackOptions(home=tmp_path, base_environment={}, environments=(Path("/opt/two"), tmp_path / "environments/x"))
    for _ in range(2):
        offer_missing(state, options, told.append)
    assert read_offers(offers) == (Path("/opt/two"),)
    assert told == ["the running stack offers /opt/two from now on, until it ends"]


def test_an_offered_environment_asks_for_no_offer(tmp_path: Path) -> None:
    options = StackOptions(home=tmp_path, base_environment={}, environments=(Path("/opt/one"),))
    offer_missing(stack_in(tmp_path, offers=str(tmp_path / OFFERS_FILE)), options, print)
    assert not (tmp_path / OFFERS_FILE).exists()


def test_the_command_for_another_stack_names_folders_and_no_pattern(tmp_path: Path) -> None:
    state = stack_in(tmp_path)
    options = StackOptions(home=tmp_path, base_environment={}, environments=(Path("/opt/two"), *map(Path, state.environments)))
    with pytest.raises(MalformedError) as refused:
        offer_missing(state, options, print)
    assert "`gatewright up --env /opt/one --env /opt/two`" in refused.value.message
