"""What a probe found is of one program with one entry, and says what the agent may do."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.agents.admission_record import ADMISSIONS
from gatewright.agents.installation import InstalledAgent, usable_agent
from gatewright.agents.policy import AgentEntry, Versions
from gatewright.contracts.vocabulary import Shell
from gatewright.errors import DeniedError
from gatewright.services.worker.agents.probe.admission import check_permitted, read_admission
from gatewright.services.worker.agents.probe.result import Step, StepResult, permitted
from tests.worker.agents.admissions import admit


def make_agent(folder: Path, **fields: object) -> InstalledAgent:
    folder.mkdir(exist_ok=True)
    (folder / "package.json").write_text('{"version": "1.2"}')
    if not (folder / "program").exists():
        (folder / "program").write_text("one")
    versions = Versions(since="1", before="2")
    entry = AgentEntry(name="agent", protocol="acp", program=("program",), package="package.json", versions=versions)
    return usable_agent(entry.model_copy(update=fields), (folder,))


def failed(*steps: Step) -> list[StepResult]:
    return [StepResult(step=step, outcome="failed", found="") for step in steps]


def test_an_unprobed_agent_is_refused_with_the_probe_command(tmp_path: Path) -> None:
    with pytest.raises(DeniedError, match="gatewright agents probe agent") as caught:
        read_admission(tmp_path, make_agent(tmp_path / "installation"))
    assert caught.value.reason == "agent_not_admitted"


def test_a_probed_agent_is_admitted_while_it_is_unchanged(tmp_path: Path) -> None:
    agent = make_agent(tmp_path / "installation")
    admit(tmp_path, agent)
    assert read_admission(tmp_path / ADMISSIONS, agent).admitted
    (tmp_path / "installation" / "program").write_text("another")
    with pytest.raises(DeniedError, match="another one than was probed"):
        read_admission(tmp_path / ADMISSIONS, agent)


@pytest.mark.parametrize("fields", [{"session_mode": "yolo"}, {"arguments": ("--yolo",)}, {"variables": {"X": "1"}}])
def test_an_agent_whose_entry_was_changed_has_to_be_probed_again(fields: dict[str, object], tmp_path: Path) -> None:
    admit(tmp_path, make_agent(tmp_path / "installation"))
    with pytest.raises(DeniedError, match="another one than was probed"):
        read_admission(tmp_path / ADMISSIONS, make_agent(tmp_path / "installation", **fields))


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"version":"1"}', b"\xff" * 100])
def test_a_record_that_cannot_be_read_admits_nothing(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "agent.json").write_bytes(content)
    with pytest.raises(DeniedError, match="was not probed"):
        read_admission(tmp_path, make_agent(tmp_path / "installation"))


def test_an_agent_that_did_not_pass_is_refused_with_what_it_failed(tmp_path: Path) -> None:
    agent = make_agent(tmp_path / "installation")
    admit(tmp_path, agent, *failed("handshake"))
    with pytest.raises(DeniedError, match="did not pass the probe"):
        read_admission(tmp_path / ADMISSIONS, agent)


def test_each_failed_step_restricts_what_is_permitted() -> None:
    every = ("deny", "never", "on-request", "untrusted")
    found = {}
    for step in ("asks", "obeys_no", "read_only", "hostile_repository"):
        good, may = permitted(failed(step))
        assert good
        found[step] = (may.shells, may.read_only, may.own_settings)
    assert found == {
        "asks": (("never",), True, True),
        "obeys_no": (("never",), False, True),
        "read_only": (every, False, True),
        "hostile_repository": (every, True, False),
    }
    assert not permitted(failed("cancel"))[0]


@pytest.mark.parametrize(
    ("steps", "shell", "read_only", "names", "refused"),
    [
        ((), "deny", True, {".claude"}, False),
        (("asks",), "never", False, (), False),
        (("asks",), "deny", False, (), True),
        (("obeys_no",), "untrusted", False, (), True),
        (("read_only",), "deny", True, (), True),
        (("hostile_repository",), "never", False, {"src"}, False),
        (("hostile_repository",), "never", False, {"opencode.json"}, True),
    ],
)
def test_a_task_beyond_an_agents_limits_is_refused(
    steps: tuple[Step, ...], shell: Shell, read_only: bool, names: set[str], refused: bool, tmp_path: Path
) -> None:
    agent = make_agent(tmp_path / "installation")
    admit(tmp_path, agent, *failed(*steps))
    admission = read_admission(tmp_path / ADMISSIONS, agent)
    if not refused:
        assert check_permitted(admission, shell=shell, read_only=read_only, names=names) == shell
        return
    with pytest.raises(DeniedError) as caught:
        check_permitted(admission, shell=shell, read_only=read_only, names=names)
    assert caught.value.reason == "agent_not_permitted"


def test_an_agent_that_asks_per_command_is_configured_for_requests(tmp_path: Path) -> None:
    agent = make_agent(tmp_path / "installation")
    each = StepResult(step="each_command", outcome="passed", found="asks for each command, and obeys")
    admit(tmp_path, agent, *failed("asks"), each)
    admission = read_admission(tmp_path / ADMISSIONS, agent)
    assert check_permitted(admission, shell="on-request", read_only=False, names=()) == "untrusted"
    assert check_permitted(admission, shell="never", read_only=False, names=()) == "never"
    with pytest.raises(DeniedError):
        check_permitted(admission, shell="deny", read_only=False, names=())
