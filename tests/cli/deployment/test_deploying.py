"""``gatewright deploy``: states, records, and what the command of a deployment can reach."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from gatewright.app.deployment.deploying import Deployer, deployment_records
from gatewright.app.deployment.policy import DEPLOYMENTS_FILE
from gatewright.app.signed_records import result_key
from gatewright.clock import SystemClock
from gatewright.contracts import Deployment
from gatewright.file_locks import lock_file
from gatewright.git.access.credentials import NO_ACCESS
from gatewright.secrets.selection import make_scanner
from tests.cli.deployment.conftest import MAIN, Yard
from tests.waiting import until

TOKEN = "tok-4d2a9c7e51b8"


def scripted(yard: Yard, text: str, **fields: Any) -> None:
    """Have the deployment run ``text``."""
    yard.land(commit=yard.repository.commit({"deploy.py": text.encode()}))
    yard.change(command=["python3", "deploy.py"], **fields)


def test_a_deployment_is_ready_with_its_address(yard: Yard) -> None:
    said = yard.deploy()
    assert said.exit_code == 0, said
    assert said.out.startswith(f"✔ READY {yard.sealed.verification.run_id} (")
    assert f"on staging http://127.0.0.1:{yard.server.port}/shop" in said.out
    assert yard.server.seen == [("POST", "/deploys", "", b"<p>hello")]


def test_the_record_is_signed_and_complete(yard: Yard) -> None:
    record = yard.record()
    landed = yard.sealed.history.run.landed
    assert landed is not None
    assert (record.state, record.exit_code, record.reason) == ("READY", 0, "")
    assert (record.commit, record.ref, record.repository) == (landed.commit, MAIN, yard.repository.url)
    assert record.command == tuple(yard.entry["command"])
    assert record.manifest_sha256 == yard.sealed.verification.manifest_sha256
    assert f"deploying {landed.commit}" in yard.output()
    (line,) = yard.requests()
    assert (line["method"], line["path"], line["decision"], line["sent"]) == ("POST", "/deploys", "allowed", 8)


def test_show_and_verify_list_deployments(yard: Yard) -> None:
    yard.record()
    run_id = yard.sealed.verification.run_id
    assert f"deployed  ✔ READY {run_id}" in yard.command("verify", run_id).out
    assert f"deployed   ✔ READY {run_id}" in yard.command("show", run_id).out
    assert yard.command("deploy", "--json").documents[0]["deployments"][0]["record"]["state"] == "READY"


@pytest.mark.parametrize("suffix", [".output", ".egress.jsonl", ".dsse.json"])
def test_an_altered_file_of_a_deployment_is_found(yard: Yard, suffix: str) -> None:
    yard.record()
    (file,) = (yard.home / "deployments").rglob(f"*{suffix}")
    file.write_bytes(file.read_bytes().replace(b"deploy", b"destroy") + b" ")
    assert yard.command("deploy").exit_code == 1
    assert yard.command("verify", yard.sealed.verification.run_id).exit_code == 1


def test_a_failing_command_is_an_error(yard: Yard) -> None:
    scripted(yard, "import sys\nprint('no such project', file=sys.stderr)\nsys.exit(3)\n")
    said = yard.deploy()
    assert said.exit_code == 1
    assert "✘ ERROR" in said.out
    assert "exit code 3" in said.out
    assert "  | no such project" in said.out
    assert "no such project" in yard.output()


def test_a_slow_command_is_a_timeout(yard: Yard) -> None:
    scripted(yard, "import time\nprint('begun', flush=True)\ntime.sleep(600)\n", timeout_sec=2)
    record = yard.record()
    assert (record.state, record.exit_code, record.reason) == ("TIMEOUT", None, "it took longer than its time limit")
    assert yard.output() == "begun\n"


def test_a_missing_program_is_an_error(yard: Yard) -> None:
    yard.change(command=["no-such-program"])
    assert yard.record().state == "ERROR"


def test_the_credential_reaches_its_server_and_not_the_command(yard: Yard) -> None:
    file = yard.folder / "token"
    file.write_text(TOKEN)
    file.chmod(0o600)
    script = (
        "import os, subprocess, urllib.request\n"
        f"base = 'http://127.0.0.1:{yard.server.port}'\n"
        "urllib.request.urlopen(urllib.request.Request(base + '/x', data=b'1', headers={'Authorization': 'Bearer mine'}))\n"
        "print(dict(os.environ))\n"
        "print(subprocess.run(['grep', '-rs', 'tok-4d2a', '/etc', '/home', '/tmp', '.'], capture_output=True).stdout)\n"
    )
    scripted(yard, script, apis=[{**yard.entry["apis"][0], "credentials": {"file": str(file)}}])
    assert yard.record().state == "READY"
    assert [each[2] for each in yard.server.seen] == [f"Bearer {TOKEN}"]
    assert TOKEN not in yard.output()


REACHES = {
    "another method": "urllib.request.urlopen(urllib.request.Request(base + '/x', method='DELETE'))",
    "another port": "urllib.request.urlopen('http://127.0.0.1:1/x')",
    "another host": "urllib.request.urlopen('http://example.com/')",
    "without the gateway": "urllib.request.build_opener(urllib.request.ProxyHandler({})).open(base + '/x', timeout=3)",
    "the canary": "urllib.request.urlopen(urllib.request.Request(base + '/x', data=open('/etc/box-canary', 'rb').read()))",
}


@pytest.mark.parametrize("call", REACHES.values(), ids=REACHES.keys())
def test_the_command_reaches_nothing_else(yard: Yard, call: str) -> None:
    honest = "urllib.request.urlopen(urllib.request.Request(base + '/honest', data=b'1'))"
    lines = [
        "import urllib.request",
        f"base = 'http://127.0.0.1:{yard.server.port}'",
        f"try:\n    {call}\nexcept OSError as error:\n    print('refused', error)\nelse:\n    print('reached')",
        honest,
    ]
    scripted(yard, "\n".join(lines))
    assert yard.record().state == "READY"
    assert "refused" in yard.output()
    assert [each[1] for each in yard.server.seen] == ["/honest"]


def test_the_number_of_requests_is_limited(yard: Yard) -> None:
    lines = [
        "import urllib.error, urllib.request",
        f"for _ in range(3):\n    try:\n        urllib.request.urlopen('http://127.0.0.1:{yard.server.port}/x', data=b'1')",
        "    except urllib.error.HTTPError as error:\n        print(error.read())",
    ]
    yard.change(requests=2)
    scripted(yard, "\n".join(lines))
    assert yard.record().state == "READY"
    assert [each[1] for each in yard.server.seen] == ["/x", "/x"]
    assert [each["reason"] for each in yard.requests() if each["reason"]] == ["egress_limit"]
    assert "raise `requests` in deployments.json" in yard.output()


def test_secrets_in_the_output_are_removed(yard: Yard) -> None:
    scripted(yard, "print('key', 'AKIA' + 'Z3QXN7RKT5WB2PLD')\nprint(open('/etc/box-canary').read())\n")
    assert yard.record().state == "READY"
    assert "AKIAZ3" not in yard.output()
    assert yard.output().count("[redacted:") == 2


REFUSALS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "another ref": ({"refs": ["refs/heads/release"]}, {}, "deployment_not_allowed"),
    "another repository": ({"repositories": ["https://git.example/shop.git"]}, {}, "deployment_not_allowed"),
    "no landing": ({}, {"ref": "", "commit": ""}, "deployment_not_landed"),
    "another name": ({"name": "production"}, {}, "deployment_unknown"),
    "unreadable ref": ({"refs": ["main"]}, {}, "configuration_invalid"),
    "no command": ({"command": []}, {}, "configuration_invalid"),
    "unread field": ({"region": "eu"}, {}, "configuration_invalid"),
    "a host with a path": ({"apis": [{"name": "x", "hosts": ["a.example/x"]}]}, {}, "configuration_invalid"),
    "two APIs of one name": ({"apis": [{"name": "x", "hosts": ["a.example"]}] * 2}, {}, "configuration_invalid"),
    "an own method": ({"apis": [{"name": "x", "hosts": ["a.example"], "methods": ["CONNECT"]}]}, {}, "configuration_invalid"),
}


@pytest.mark.parametrize(("policy", "landed", "code"), REFUSALS.values(), ids=REFUSALS.keys())
def test_nothing_is_started_against_the_policy(yard: Yard, policy: dict[str, Any], landed: dict[str, Any], code: str) -> None:
    yard.change(**policy)
    yard.land(**landed)
    assert yard.code() == code
    assert yard.server.seen == []


def test_a_commit_that_left_its_ref_is_refused(yard: Yard) -> None:
    yard.repository.git("commit", "--amend", "--quiet", "-m", "another")
    assert yard.code() == "deployment_not_on_ref"


def test_a_later_commit_on_the_ref_does_not_matter(yard: Yard) -> None:
    yard.repository.commit({"site/index.html": b"<p>later"})
    assert yard.record().state == "READY"
    assert [each[3] for each in yard.server.seen] == [b"<p>hello"]


def test_a_missing_credential_starts_nothing(yard: Yard) -> None:
    yard.change(apis=[{**yard.entry["apis"][0], "credentials": {"environment": "NO_SUCH_VARIABLE"}}])
    assert yard.code() == "deployment_credentials_missing"


def test_two_deployments_of_one_name_exclude_each_other(yard: Yard) -> None:
    (yard.home / "deployments").mkdir()
    held = lock_file(yard.home / "deployments" / ".staging.lock")
    assert yard.code() == "deployment_running"
    os.close(held)
    assert yard.record().state == "READY"


def test_the_key_of_bundles_signs_no_deployment(yard: Yard) -> None:
    yard.change(key=str(yard.home / "keys" / "gatekeeper.pem"))
    assert yard.code() == "publication_key_shared"


def test_the_files_of_a_deployment_are_those_of_the_commit(yard: Yard) -> None:
    (yard.repository.path / "site/index.html").write_text("<p>not committed")
    yard.record()
    assert [each[3] for each in yard.server.seen] == [b"<p>hello"]


async def test_an_interrupted_deployment_was_running_and_is_an_error(yard: Yard) -> None:
    scripted(yard, "import time\ntime.sleep(600)\n")
    policy, sha256 = DEPLOYMENTS_FILE.load(yard.folder / "policies")
    key, scanner = result_key(yard.home, None, []), make_scanner("patterns", yard.folder)
    deployer = Deployer(
        policy.entry("staging"), sha256 or "", key, yard.home, NO_ACCESS, scanner, SystemClock(), lambda _: None
    )

    def recorded() -> list[Deployment]:
        return [each.record for each in deployment_records(yard.home) if each.record is not None]

    deploying = asyncio.create_task(deployer.deploy(yard.sealed))
    await until(lambda: bool(recorded()))
    assert [each.state for each in recorded()] == ["RUNNING"]
    deploying.cancel()
    await deploying
    assert [(each.state, each.reason) for each in recorded()] == [("ERROR", "it was interrupted")]
