"""Each step of the probe tells an agent that has its fault from one that has none."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gatewright.agents.installation import usable_agent
from gatewright.agents.policy import AgentEntry, Versions
from gatewright.clock import SystemClock
from gatewright.errors import UnavailableError
from gatewright.sandbox import SandboxLimits
from gatewright.sandbox.account import sandbox_account
from gatewright.sandbox.bubblewrap import BubblewrapSandbox
from gatewright.services.worker.agents.acp.protocol import AcpAgent
from gatewright.services.worker.agents.port import Launch
from gatewright.services.worker.agents.probe.admission import probe
from gatewright.services.worker.agents.probe.door import GatewayDoor
from gatewright.services.worker.agents.probe.steps import (
    asks,
    cancel,
    failing_model,
    handshake,
    hostile_repository,
    long_message,
    obeys_no,
    read_only,
)
from gatewright.services.worker.agents.probe.trial import MODEL, Bench, Observed, Trial

PROGRAM = Path(__file__).with_name("model_program.py")
MakeBench = Callable[..., Bench]


@pytest.fixture
def make_bench(tmp_path: Path) -> MakeBench:
    tmp_path.chmod(0o755)
    installation = tmp_path / "installation"
    installation.mkdir()
    program = installation / "agent.py"
    shutil.copy(PROGRAM, program)
    program.chmod(0o755)

    def make(*faults: str, masked: tuple[str, ...] = ()) -> Bench:
        agent = AcpAgent((str(program), MODEL, *faults), "model")
        return Bench(
            sandbox=BubblewrapSandbox(),
            account=sandbox_account(),
            agent=agent,
            shown=(installation,),
            limits=SandboxLimits(),
            launch=lambda order: Launch(agent.argv, {"BASE_URL": order.base_url}),
            masked=masked,
            door=GatewayDoor,
        )

    return make


async def test_the_handshake_reports_the_version(make_bench: MakeBench) -> None:
    step, version = await handshake(make_bench())
    assert (step.outcome, version) == ("passed", "7.1")


async def test_an_agent_that_ends_at_once_has_no_handshake(make_bench: MakeBench) -> None:
    bench = make_bench()
    broken = replace(bench, launch=lambda order: Launch(("/bin/false",), {"BASE_URL": order.base_url}))
    step, version = await handshake(broken)
    assert (step.outcome, version) == ("failed", "")


async def test_an_agent_that_never_asks_its_model_has_no_handshake(make_bench: MakeBench) -> None:
    step, version = await handshake(make_bench("hermit"))
    assert (step.outcome, version) == ("failed", "7.1")
    assert step.found.startswith("ended its turn without a word of its model")


async def test_an_agent_that_asks_for_nothing_is_seen(make_bench: MakeBench) -> None:
    good, models, connections = await asks(make_bench())
    assert (good.outcome, models.outcome, connections.outcome) == ("passed", "passed", "passed"), (good, models, connections)
    bad, _, _ = await asks(make_bench("unasked"))
    assert (bad.outcome, bad.found) == ("failed", "does not ask for edits nor for commands")


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "words"),
    [("wasteful", "no turn"), ("silent", "does not report its usage"), ("listening", "listens on port(s) 4567")],
)
async def test_other_models_hidden_usage_and_open_ports_are_recorded(fault: str, words: str, make_bench: MakeBench) -> None:
    _, models, connections = await asks(make_bench(fault))
    found = [step for step in (models, connections) if step.outcome == "recorded"]
    assert found
    assert fault == "wasteful" or words in found[0].found


@pytest.mark.long
@pytest.mark.parametrize("fault", ["unasked", "defiant"])
async def test_an_agent_that_does_what_it_was_refused_is_seen(fault: str, make_bench: MakeBench) -> None:
    assert (await obeys_no(make_bench(fault))).outcome == "failed"


async def test_an_agent_that_obeys_is_seen_to(make_bench: MakeBench) -> None:
    assert (await obeys_no(make_bench())).outcome == "passed"


@pytest.mark.long
@pytest.mark.parametrize(("faults", "outcome"), [((), "passed"), (("late",), "failed"), (("defiant",), "failed")])
async def test_a_write_after_the_turn_is_seen(faults: tuple[str, ...], outcome: str, make_bench: MakeBench) -> None:
    assert (await read_only(make_bench(*faults))).outcome == outcome


async def test_settings_of_the_repository_that_are_obeyed_must_be_hidden(make_bench: MakeBench) -> None:
    assert (await hostile_repository(make_bench())).found == "obeys no settings of the repository"
    hidden = await hostile_repository(make_bench("obedient", masked=(".opencode",)))
    assert (hidden.outcome, hidden.found) == ("passed", "obeys settings of the repository (plugin), which tasks hide from it")
    assert (await hostile_repository(make_bench("obedient", masked=(".claude",)))).outcome == "failed"


@pytest.mark.long
@pytest.mark.parametrize("faults", [(), ("stubborn",)])
async def test_a_cancelled_agent_returns_and_leaves_nothing(faults: tuple[str, ...], make_bench: MakeBench) -> None:
    step = await cancel(make_bench(*faults))
    assert step.outcome == "passed", step
    assert step.found.startswith("returns in a command and in an open question within ")
    assert ("; 0 process" in step.found) is not bool(faults)


async def test_an_agent_that_runs_no_command_fails_the_return_step(make_bench: MakeBench) -> None:
    step = await cancel(make_bench("idle"))
    assert (step.outcome, step.found) == ("failed", "no command ran that could be cancelled: completed")


@pytest.mark.long
@pytest.mark.parametrize(("faults", "outcome"), [((), "passed"), (("boastful",), "recorded")])
async def test_success_without_a_model_is_seen(faults: tuple[str, ...], outcome: str, make_bench: MakeBench) -> None:
    assert (await failing_model(make_bench(*faults))).outcome == outcome


async def test_a_long_message_is_taken(make_bench: MakeBench) -> None:
    assert (await long_message(make_bench())).outcome == "passed"


class WaitingBench(Bench):
    """A bench whose trials come to their end when three of them are made at the same time."""

    barrier = asyncio.Barrier(3)

    async def observe(self, trial: Trial) -> Observed:
        await self.barrier.wait()
        return Observed(end=None, fault="", events=(), seen=(), files={}, seconds=0.0)


async def test_failing_models_are_awaited_in_parallel(make_bench: MakeBench) -> None:
    bench = make_bench()
    waiting = WaitingBench(bench.sandbox, bench.account, bench.agent, bench.shown, bench.limits, bench.launch)
    async with asyncio.timeout(30):
        assert (await failing_model(waiting)).outcome == "passed"


async def test_a_step_that_time_ends_records_nothing(make_bench: MakeBench, tmp_path: Path) -> None:
    mute = replace(make_bench(), launch=lambda order: Launch(("/bin/sleep", "1000"), {"BASE_URL": order.base_url}))
    (tmp_path / "package.json").write_text('{"version": "1.0"}')
    versions = Versions(since="1", before="2")
    entry = AgentEntry(name="mute", protocol="acp", program=("package.json",), package="package.json", versions=versions)
    with pytest.raises(UnavailableError, match="the step handshake was not over after 3 s") as caught:
        await probe(mute, usable_agent(entry, (tmp_path,)), SystemClock(), seconds=3.0)
    assert caught.value.reason == "probe_unfinished"
