"""Repositories, agents of this host, and the system itself: what is told, and that no word of it becomes markup."""

from __future__ import annotations

import re
import urllib.parse
from pathlib import Path

import msgspec

from gatewright.agents.admission_record import ADMISSIONS
from gatewright.agents.probed import probed_agents
from gatewright.app.cluster.asking import ClusterLook
from gatewright.bus.jetstream.processes import Process
from gatewright.bus.jetstream.queue_depths import QueueDepth
from gatewright.bus.topology import ROLES, consumers
from gatewright.errors import ConfigurationError
from gatewright.services.worker.agents.probe.admission import keep
from gatewright.services.worker.agents.probe.result import Admission, StepResult, permitted
from tests.console.conftest import ServedConsole
from tests.console.test_pages import Markup, ask, hostile_run
from tests.report.conftest import HOSTILE
from tests.view.ledgers import make_run, run_id_of


def admission(agent: str, found: str) -> Admission:
    steps = (StepResult(step="handshake", outcome="passed", found=found),)
    good, may = permitted(steps)
    return Admission(
        version="1",
        agent=agent,
        agent_version="1.2.3",
        program_sha256="0" * 64,
        entry_sha256="0" * 64,
        probed_at="2026-01-01T00:00:00.000Z",
        steps=steps,
        admitted=good,
        permitted=may,
        package_version="1.2.3",
    )


def look() -> ClusterLook:
    """Every role but the reviewer; one queue is paused, another has something old."""
    queues = consumers(("default",), ("default",))
    depths = [QueueDepth(queue, 0, 0, 1, paused=number == 0, oldest=0.0) for number, queue in enumerate(queues)]
    depths[1] = QueueDepth(queues[1], 3, 0, 0, paused=False, oldest=90_000.0)
    there = (Process(name=f"gw-{role}", id=f"{role}-1", version="1.0") for role in ROLES if role != "reviewer")
    return ClusterLook(
        server="2.12.1",
        max_payload=8 << 20,
        offered=None,
        round_trip=0.0,
        processes=tuple(there),
        streams=(),
        queues=tuple(depths),
        missing=(),
        dead_letters=2,
    )


def test_foreign_text_about_repositories_and_agents_is_shown_as_text(console: ServedConsole) -> None:
    run = hostile_run()
    console.write(make_run(1))
    console.write(run.transitions)
    keep(console.home / ADMISSIONS, admission("held", HOSTILE))
    (console.home / ADMISSIONS / "broken.json").write_text("{")
    (console.home / ADMISSIONS / "link.json").symlink_to(console.home / ADMISSIONS / "held.json")
    listed = ask(console, "/repositories").text
    paths = ["/repositories", "/agents", "/repository?url=" + urllib.parse.quote(HOSTILE)]
    paths += re.findall(r'href="(/repository\?[^"]+)"', listed)
    pages = {path: ask(console, path) for path in paths}
    assert sorted({page.status for page in pages.values()}) == [200, 404]
    for page in pages.values():
        markup = Markup(page.text)
        assert markup.scripts == ["/static/console.js"]
        assert not {name for name in markup.attributes if name.startswith("on") or name == "style"}
        assert not {"img", "iframe", "style", "object", "embed"} & markup.tags
        assert not set("\x1b\u202e\x00") & set(page.text)
    assert any(run_id_of(1) in page.text and "Time to land" in page.text for page in pages.values())
    assert "1.2.3" in pages["/agents"].text
    assert [each.agent for each in probed_agents(console.home)] == ["held"]


def test_an_admission_as_the_worker_keeps_it_is_read_whole(tmp_path: Path) -> None:
    written = admission("held", "all good")
    keep(tmp_path / ADMISSIONS, written)
    (read,) = probed_agents(tmp_path)
    known = {field.name for field in msgspec.structs.fields(read)}
    whole = msgspec.to_builtins(written)
    assert msgspec.to_builtins(read) == {name: value for name, value in whole.items() if name in known}
    assert set(whole) - known == {"version", "program_sha256", "entry_sha256"}


def test_the_board_shows_missing_roles_and_stalled_queues(tmp_path: Path) -> None:
    looks: list[int] = []

    async def looked() -> ClusterLook:
        looks.append(1)
        return look()

    console = ServedConsole(tmp_path, look=looked)
    console.open()
    told = [ask(console, "/system").text for _ in range(3)][-1]
    assert len(looks) == 1  # however many pages ask
    for words in (
        "role_silent",
        "reviewer: no process answers",
        "queue_paused",
        "queue_unattended",
        "2 dead letters",
        "3 waiting",
    ):
        assert words in Markup(told).text
    assert "paused" in told
    console.close()


def test_without_permission_to_look_the_board_names_who_has_it(tmp_path: Path) -> None:
    async def refused() -> ClusterLook:
        raise ConfigurationError("an operator may look at it all", code="operator_needed")

    console = ServedConsole(tmp_path, look=refused)
    console.open()
    assert "operator_needed: an operator may look at it all" in Markup(ask(console, "/system").text).text
    console.close()
