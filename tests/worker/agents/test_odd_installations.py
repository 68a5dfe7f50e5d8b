"""What lies in an agent's installation, and in the records about agents, may be anything: it is of no version, or refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.agents.admission_record import admitted_agent
from gatewright.agents.installation import find_agent
from gatewright.agents.policy import AgentEntry, Versions
from gatewright.agents.probed import ProbedAgent, probed_agents
from gatewright.app.cli.agents import _documents
from gatewright.errors import GatewrightError, MalformedError
from gatewright.services.worker.agents.session_state import SessionNotKeptError, unpack
from tests.odd_values import NO_DOCUMENTS, Message, few_or_all, odd_bytes

ENTRY = AgentEntry(
    name="a", protocol="acp", program=("bin/a",), package="package.json", versions=Versions(since="1", before="2")
)


class Lines:
    """A pipe that holds these bytes."""

    def __init__(self, data: bytes) -> None:
        self._left = [data + b"\n", b'{"admitted": 1}\n']

    def readline(self, most: int) -> bytes:
        return self._left.pop(0)[:most] if self._left else b""


@few_or_all
def test_a_package_of_any_shape_has_a_version_or_none(values: tuple[object, ...], tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "a").write_text("x")
    documents: tuple[Message, ...] = ({"name": "a", "version": "1.5.0"}, {"version": "1" * 70_000 + ".1"})
    for document in documents:
        for data in odd_bytes(document, values):
            (tmp_path / "package.json").write_bytes(data)
            found = find_agent(ENTRY, [tmp_path])
            assert found is not None
            assert found.version_holds in {True, False}


@few_or_all
def test_records_of_agents_of_any_shape_are_refused_or_read(values: tuple[object, ...], tmp_path: Path) -> None:
    record: Message = dict.fromkeys(ProbedAgent.__struct_fields__, "x")
    folder = tmp_path / "agents"
    folder.mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "a").write_text("x")
    (tmp_path / "package.json").write_text('{"version": "1.5"}')
    agent = find_agent(ENTRY, [tmp_path])
    assert agent is not None
    session: Message = {"agent": "a", "version": "1.5", "session": "s", "files": [{"path": ".a/x", "text": "y"}]}
    for data in (*odd_bytes(record, values), *odd_bytes(session, values)):
        (folder / "a.json").write_bytes(data)
        probed_agents(tmp_path)
        for read in (admitted_agent, lambda data: unpack(data, agent)):
            try:
                read(data)
            except (GatewrightError, SessionNotKeptError):
                continue


@pytest.mark.parametrize("data", NO_DOCUMENTS)
def test_lines_of_a_probe_that_are_none_are_refused(data: bytes) -> None:
    with pytest.raises(GatewrightError):
        list(_documents(Lines(data)))
    with pytest.raises(MalformedError):
        admitted_agent(data)
