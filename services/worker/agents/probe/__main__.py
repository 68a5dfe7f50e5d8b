"""Probes one agent of agents.json on this host: ``python -m gatewright.services.worker.agents.probe NAME``.

Writes one JSON document a line to its output: each step as it comes, and what came of all. Ends with 0 when the agent is
admitted, 1 when it is not, and with the code of the reason on the last line when it could not be probed.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace

import msgspec

from gatewright.agents.admission_record import ADMISSIONS
from gatewright.agents.installation import usable_agent
from gatewright.agents.policy import load_agents
from gatewright.clock import SystemClock
from gatewright.contracts.vocabulary import Document
from gatewright.errors import GatewrightError
from gatewright.reasons import exit_code_of
from gatewright.sandbox.account import sandbox_account
from gatewright.sandbox.bubblewrap import BubblewrapSandbox
from gatewright.services.worker.agents.probe.admission import keep, probe
from gatewright.services.worker.agents.probe.door import GatewayDoor
from gatewright.services.worker.agents.probe.result import Admission
from gatewright.services.worker.agents.probe.trial import Bench
from gatewright.services.worker.agents.protocols import launch_of, protocol_of
from gatewright.services.worker.settings import Settings


async def _probe(name: str) -> Admission:
    settings = Settings.load()
    agents = load_agents(settings.policies)
    agent = usable_agent(agents.agent(name), settings.agent_installations)
    protocol = protocol_of(agent)
    bench = Bench(
        sandbox=BubblewrapSandbox(),
        account=sandbox_account(),
        agent=protocol,
        shown=(agent.folder,),
        limits=replace(settings.limits(), wall_seconds=120.0),
        launch=lambda order: launch_of(agent, protocol, order),
        masked=agents.masked_for(agent.entry),
        door=GatewayDoor,
    )
    admission = await probe(bench, agent, SystemClock(), _write_document)
    keep(settings.home / ADMISSIONS, admission)
    return admission


def _write_document(document: Document) -> None:
    sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
    sys.stdout.flush()


def main() -> int:
    """See the module."""
    if len(sys.argv) != 2:
        sys.stderr.write("the name of one agent is wanted\n")
        return 2
    try:
        admission = asyncio.run(_probe(sys.argv[1]))
    except GatewrightError as error:
        sys.stdout.write(json.dumps({"code": error.reason, "message": error.message}) + "\n")
        return exit_code_of(error.family)
    _write_document(admission)
    return 0 if admission.admitted else 1


if __name__ == "__main__":
    raise SystemExit(main())
