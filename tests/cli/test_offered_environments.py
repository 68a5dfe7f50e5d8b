"""A running stack that does not offer an environment: the command to start it with can be pasted."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.app.cli.session import refuse_unoffered
from gatewright.app.stack.state import StackState
from gatewright.app.stack.supervisor import StackOptions
from gatewright.errors import MalformedError


def test_the_command_for_another_stack_names_folders_and_no_pattern(tmp_path: Path) -> None:
    offered = ("/opt/one", str(tmp_path / "environments/*"))
    state = StackState(
        pid=1,
        boot="b",
        started=1,
        url="nats://127.0.0.1:1",
        keys="k",
        home=str(tmp_path),
        shared=True,
        workers=1,
        environments=offered,
    )
    options = StackOptions(home=tmp_path, base_environment={}, environments=(Path("/opt/two"), *map(Path, offered)))
    with pytest.raises(MalformedError) as refused:
        refuse_unoffered(state, options)
    assert "`gatewright up --env /opt/one --env /opt/two`" in refused.value.message
