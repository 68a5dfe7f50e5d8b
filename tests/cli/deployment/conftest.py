"""A repository with a landed commit, the sealed run that landed it, a policy of deployments, and the server that they call."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace as with_fields

from gatewright.app.cli import results
from gatewright.app.cli.context import find_place
from gatewright.app.publication.artifacts import SealedRun, sealed_run
from gatewright.app.report.account import read_account
from gatewright.contracts import Deployment
from gatewright.contracts.run_status import LandedChange
from gatewright.contracts.vocabulary import Repository as RepositoryField
from gatewright.evidence.signing import keys
from gatewright.evidence.verification.verify import verify
from tests.cli.conftest import Command, Said
from tests.cli.test_report import make_bundle
from tests.git.repositories import Repository

MAIN = "refs/heads/main"
#: Deploys by one request with the path as its argument.
SCRIPT = b"""import os, sys, urllib.request
base = sys.argv[1]
print("deploying", os.environ["GATEWRIGHT_COMMIT"], flush=True)
request = urllib.request.Request(base + "/deploys", data=open("site/index.html", "rb").read(), method="POST")
print("answer", urllib.request.urlopen(request).status, flush=True)
print("address: " + base + "/shop")
"""


@dataclass
class Server:
    """What reached the server: method, path, Authorization, body."""

    seen: list[tuple[str, str, str, bytes]] = field(default_factory=list)
    port: int = 0


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            made.seen.append((self.command, self.path, self.headers.get("Authorization", ""), body))
            self.send_response(201)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_DELETE = do_POST  # noqa: N815 - the names that the library calls

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        listening.daemon_threads = True
        made.port = listening.server_port
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield made
        finally:
            listening.shutdown()
            thread.join()


@dataclass
class Yard:
    """A landed run; ``entry`` are the fields of its deployment ``staging``."""

    command: Command
    folder: Path
    repository: Repository
    sealed: SealedRun
    server: Server
    entry: dict[str, Any]

    @property
    def home(self) -> Path:
        return self.folder / ".gatewright"

    def change(self, **fields: Any) -> None:
        """Change the policy."""
        self.entry |= fields
        policy = {"version": "1", "deployments": [{"name": "staging", **self.entry}]}
        (self.folder / "policies" / "deployments.json").write_text(json.dumps(policy))

    def land(self, **fields: Any) -> None:
        """Change what the run landed."""
        run = self.sealed.history.run
        assert run.landed is not None
        run = with_fields(run, landed=with_fields(run.landed, **fields))
        self.sealed = replace(self.sealed, history=replace(self.sealed.history, run=run))

    def deploy(self, *words: str) -> Said:
        return self.command("deploy", self.sealed.verification.run_id, "--to", "staging", *words)

    def record(self) -> Deployment:
        """Deploy, and return the record, which verifies."""
        said = self.deploy("--json")
        assert "error" not in said.documents[-1], said
        (found,) = results.list_deployments(None)
        assert found.record is not None
        assert not found.code
        return found.record

    def code(self) -> str:
        """Return the code of a refusal, which must be one: no record is written."""
        said = self.deploy("--json")
        assert said.exit_code != 0, said
        assert results.list_deployments(None) == []
        return str(said.documents[-1]["error"]["code"])

    def output(self) -> str:
        (file,) = (self.home / "deployments").rglob("*.output")
        return file.read_text()

    def requests(self) -> list[dict[str, Any]]:
        (file,) = (self.home / "deployments").rglob("*.egress.jsonl")
        return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture
def yard(gatewright: Command, tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> Yard:
    for name in ("policies", "home", "shop"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("GATEWRIGHT_POLICIES", str(tmp_path / "policies"))
    monkeypatch.setenv("GATEWRIGHT_SECRET_SCANNER", "patterns")
    repository = Repository(tmp_path / "shop", tmp_path / "home")
    repository.git("init", "--quiet", "--template=", "--initial-branch=main")
    commit = repository.commit({"site/index.html": b"<p>hello", "deploy.py": SCRIPT})
    bundle = make_bundle(tmp_path)
    key = keys.load(keys.home_key(tmp_path / ".gatewright")).public
    sealed = sealed_run(read_account(bundle), verify(bundle, [key]))
    run = sealed.history.run
    assert run.contract is not None
    contract = with_fields(run.contract, repository=RepositoryField(url=repository.url))
    landed = LandedChange(
        mode="branch", ref=MAIN, commit=commit, tree=repository.git("rev-parse", "HEAD^{tree}").decode().strip()
    )
    run = with_fields(run, contract=contract, landed=landed)
    made = Yard(gatewright, tmp_path, repository, replace(sealed, history=replace(sealed.history, run=run)), server, {})
    base = f"http://127.0.0.1:{server.port}"
    api = {"name": "host", "hosts": [f"127.0.0.1:{server.port}"], "private": True, "http": True, "methods": ["POST"]}
    made.change(command=["python3", "deploy.py", base], repositories=[repository.url], refs=[MAIN], apis=[api], timeout_sec=60)
    monkeypatch.setattr(results, "_verified", lambda *_: results._Source(find_place(), made.sealed, [key]))
    return made
