"""A change request of a private repository over smart HTTP: ordered by the forge process, judged by the gatekeeper."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.app.forge.inward import Inward, JudgedHeads, Ordered
from gatewright.client.client import inline_artifact
from gatewright.contracts import RequestTask, RunRequest
from gatewright.contracts.vocabulary import Agent, Artifact
from gatewright.git.access.credentials import RepositoryAccess
from gatewright.run.state import Run
from gatewright.services.pm.compiler import compile_contract
from tests.attacks.whole_gatekeeper import RUN, open_gatekeeper
from tests.forge.inward.known_forge import RULE, KnownForge, make_entry, make_request
from tests.gatekeeper.contexts import delivered_policies
from tests.git.access.conftest import MakeMirrors, certificate, make_mirrors, remote, server
from tests.git.access.servers import READ, GitServer
from tests.git.access.test_change_requests import offer
from tests.git.conftest import first_repository
from tests.git.repositories import Repository

__all__ = ["certificate", "first_repository", "make_mirrors", "remote", "server"]


class KeptOrders:
    """Orders that nothing carries out; ``patches`` are what they have attached."""

    def __init__(self) -> None:
        self.orders: list[RunRequest] = []
        self.patches: list[bytes] = []

    async def attach(self, name: str, data: bytes) -> Artifact:
        self.patches.append(data)
        return inline_artifact(name, data)

    async def submit_request(self, request: RunRequest) -> str:
        self.orders.append(request)
        return RUN


@pytest.mark.every_case
@pytest.mark.parametrize("moved", [False, True])
async def test_the_gatekeeper_fetches_the_head_itself(
    server: GitServer, remote: Repository, make_mirrors: MakeMirrors, tmp_path: Path, moved: bool
) -> None:
    head, orders = offer(remote, b"new\n"), KeptOrders()
    forge = KnownForge({7: make_request(head=head)})
    rule = replace(RULE, allowed_paths=("new.txt",), allow_tests=())
    inward = Inward(make_entry(server.url("team/shop.git")), rule, forge, make_mirrors("operator"), orders, JudgedHeads)
    assert await inward.judge(7) == Ordered(7, head, RUN)
    assert server.passwords() == {None, READ}
    server.seen.clear()
    run = await judge(remote, orders, RepositoryAccess.load(tmp_path / "policies", "gatekeeper"), tmp_path, moved=moved)
    assert server.passwords() == {None, READ}
    if moved:
        assert run.failure is not None
        assert run.failure.code == "source_moved"
    else:
        assert run.failure is None, run.failure
        assert run.candidate is not None
        assert run.candidate.tree == remote.git("rev-parse", f"{head}^{{tree}}").decode().strip()


async def judge(remote: Repository, orders: KeptOrders, access: RepositoryAccess, folder: Path, *, moved: bool) -> Run:
    """Carry out the order with an honest pm, tech lead and worker; return the run with its candidate."""
    async with open_gatekeeper(remote, folder, access=access) as gatekeeper:
        run = await gatekeeper.submit(orders.orders[0])
        assert run.request is not None, run.failure
        task = RequestTask(run_id=RUN, task_id=f"{RUN}.pm", baseline_commit=run.accepted.baseline_commit, request=run.request)
        run = await gatekeeper.answer(
            "pm", compile_contract(task, Agent(role="PM", agent_id="pm-1"), delivered_policies().environments)
        )
        assert run.failure is None, run.failure
        await gatekeeper.plan()
        if moved:
            offer(remote, b"newer\n")
        return await gatekeeper.work(orders.patches[0])
