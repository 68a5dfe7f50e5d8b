"""``refs tidy --expired --repo URL``: branches on a git server with tokens, by policy, holds and bundles of a home folder."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gatewright.app.retention.holds import HoldBook
from gatewright.clock import timestamp
from gatewright.contracts import LegalHold
from gatewright.evidence.signing import keys
from tests.cli.conftest import Command, gatewright  # noqa: F401
from tests.git.access.servers import PUSH, READ, GitServer, git_server, hostile_server, make_certificate
from tests.retention.conftest import NOW, House
from tests.retention.test_branch_expiry import branches, git, name, repository  # noqa: F401
from tests.waiting import PATIENCE


@dataclass(frozen=True)
class Served:
    """``bare`` is what ``server`` offers as ``url``; ``policies`` say how it is reached, and when branches go."""

    server: GitServer
    bare: Path
    policies: Path

    @property
    def url(self) -> str:
        return self.server.url("shop.git")

    def left(self) -> set[str]:
        return branches(self.bare)


@pytest.fixture
def served(
    house: House,
    repository: Path,  # noqa: F811
    private_key: keys.PrivateKey,
    gatewright: Command,  # noqa: F811 - it takes away what is set before it
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Served]:
    root, policies = tmp_path / "served", tmp_path / "policies"
    root.mkdir()
    policies.mkdir()
    git(tmp_path, "clone", "-q", "--bare", str(repository), str(root / "shop.git"))
    key = tmp_path / "gatekeeper.pem"
    key.write_bytes(keys.private_pem(private_key))
    key.chmod(0o600)
    keys.load_or_create(key)
    for variable, value in {"HOME": house.home, "POLICIES": policies, "KEY": key}.items():
        monkeypatch.setenv(f"GATEWRIGHT_{variable}", str(value))
    rights = {READ: frozenset({"read"}), PUSH: frozenset({"read", "push"})}
    with git_server(root, make_certificate(tmp_path / "authority"), rights) as server:
        served = Served(server, root / "shop.git", policies)
        _allow(served, f"https://127.0.0.1:{server.port}/", PUSH)
        (policies / "retention.json").write_text('{"version": "1", "branches": {"days": 30}}')
        yield served


def _allow(served: Served, place: str, push: str) -> None:
    for purpose, token in (("read", READ), ("push", push)):
        (served.policies / purpose).write_text(token)
    entry = {
        "places": [place],
        "ca_file": str(served.server.authority),
        **{purpose: {"token": {"file": str(served.policies / purpose)}} for purpose in ("read", "push")},
    }
    (served.policies / "repositories.json").write_text(json.dumps({"version": "1", "repositories": [entry]}))


def hold(house: House, number: int) -> None:
    act = LegalHold(run_id=name(number), act="place", reason="a dispute", by="counsel", at=timestamp(NOW))
    HoldBook(house.home).write(act)


def copies(house: House) -> list[Path]:
    return list((house.home / "branch-copies").iterdir())


def test_only_old_merged_and_proven_branches_are_deleted(
    house: House,
    served: Served,
    gatewright: Command,  # noqa: F811
) -> None:
    for number, days in ((1, 3000), (2, -3000), (3, 3000), (6, 3000)):
        house.seal(number, days_old=days)
    hold(house, 3)
    words = ("refs", "tidy", "--expired", "--repo", served.url)
    before = served.left()
    said = gatewright(*words)
    assert said.exit_code == 0, said
    assert f"goes   gatewright/{name(1)} at " in said.out
    assert "--yes" in said.out
    assert served.left() == before
    assert not [each for each in served.server.seen if "receive-pack" in each.path]
    (document,) = gatewright(*words, "--yes", "--json").documents
    why = {each["name"]: each["why"] for each in document["items"] if each["action"] == "keep"}
    assert set(why) == {name(number) for number in (2, 3, 4, 5, 6)}
    assert "a dispute" in why[name(3)]
    assert why[name(2)].endswith("days old; kept for 30")
    assert why[name(4)] == why[name(5)] == "no bundle of its run is stored here"
    assert why[name(6)] == "unmerged"
    assert [(each["repository"], each["name"], each["code"]) for each in document["done"]] == [(served.url, name(1), "")]
    assert served.left() == before - {name(1)}
    assert copies(house) == []


def test_a_server_that_refuses_is_reported_and_nothing_is_lost(
    house: House,
    served: Served,
    gatewright: Command,  # noqa: F811
) -> None:
    house.seal(1, days_old=3000)
    (served.policies / "push").write_text(READ)
    before = served.left()
    said = gatewright("refs", "tidy", "--expired", "--repo", served.url, "--yes")
    assert said.exit_code == 1
    assert f"left gatewright/{name(1)}: " in said.out
    assert "[repository_access_denied]" in said.out
    assert f"gatewright/{name(1)}: left" in said.err
    assert served.left() == before


def test_a_missing_repository_does_not_stop_the_others(
    house: House,
    served: Served,
    gatewright: Command,  # noqa: F811
) -> None:
    house.seal(1, days_old=3000)
    before = served.left()
    lost = served.server.url("lost.git")
    said = gatewright("refs", "tidy", "--expired", "--repo", lost, "--repo", served.url, "--yes")
    assert said.exit_code == 3, said
    assert f"left all of {lost}: " in said.out
    assert served.left() == before - {name(1)}
    assert gatewright("refs", "tidy", "--expired", "--repo", lost, "--yes").exit_code == 2


def test_no_process_has_branch_deletion_and_bus_rights(
    served: Served,
    gatewright: Command,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = gatewright("gc", "--ledger", "--repo", served.url, "--yes", "--json")
    assert said.documents[0]["error"]["code"] == "invalid_input"
    assert "refs tidy --expired" in said.documents[0]["error"]["message"]
    monkeypatch.setenv("GATEWRIGHT_NATS_SEED", "/somewhere/provisioner.nk")
    for more in ((), ("--yes", "--every", "1")):
        said = gatewright("refs", "tidy", "--expired", "--repo", served.url, *more)
        assert (said.exit_code, "[no_bus_identity_here]" in said.err) == (2, True)
    assert not served.server.seen


@pytest.mark.parametrize(
    ("more", "number", "ends"),
    [((), signal.SIGINT, (1, "interrupted")), (("--every", "1"), signal.SIGTERM, (0, "git_cancelled"))],
    ids=["a person's", "a process that stays"],
)
def test_a_round_stopped_during_server_silence_leaves_nothing_behind(
    house: House, served: Served, more: tuple[str, ...], number: signal.Signals, ends: tuple[int, str]
) -> None:
    asked, gone = threading.Event(), threading.Event()

    def say(client: ssl.SSLSocket) -> None:
        asked.set()
        with contextlib.suppress(OSError):
            client.recv(1)
        gone.set()

    with hostile_server(served.server.authority, say) as port:
        url = f"https://127.0.0.1:{port}/x.git"
        _allow(served, url, PUSH)
        argv = [sys.executable, "-m", "gatewright.app.cli.main", "refs", "tidy", "--expired", "--repo", url, "--yes", *more]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ))
        assert asked.wait(60)
        process.send_signal(number)
        out, said = process.communicate(timeout=PATIENCE)
        assert gone.wait(60), "git still waits for its server"
    assert (process.returncode, ends[1] in out + said) == (ends[0], True), out + said
    assert copies(house) == []
