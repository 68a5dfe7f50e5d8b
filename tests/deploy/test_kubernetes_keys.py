"""The job that makes the keys of a release: what it makes, what it leaves as it is, and how it ends when it may not."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gatewright.app.stack.nats_server import find_binary
from gatewright.bus.identities import STANDING, load
from gatewright.evidence.signing import keys
from gatewright.version import __version__
from tests.deploy.cluster_api import ClusterApi, cluster_api

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "gatewright"
PROGRAM = ROOT / "deploy" / "image" / "kubernetes_keys.py"


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ClusterApi]:
    with cluster_api(tmp_path) as made:
        yield made


def provision(api: ClusterApi, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """As the job of the chart does, in an empty folder of its own."""
    home.mkdir()
    environment = {"PATH": os.environ["PATH"], "GATEWRIGHT_HOME": str(home), **api.environment()}
    command = [sys.executable, str(PROGRAM), "--prefix", "gw", "--label", "app.kubernetes.io/instance=gw", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def files(api: ClusterApi, name: str) -> dict[str, bytes]:
    data: dict[str, str] = api.secrets[name]["data"]
    return {file: base64.b64decode(content) for file, content in data.items()}


def test_a_first_run_creates_all_identity_signing_and_server_secrets(api: ClusterApi, tmp_path: Path) -> None:
    done = provision(api, tmp_path / "home", "--servers", "3", "--pools", "default,gpu", "--publisher", "ci")
    assert done.returncode == 0, done.stderr
    identities = [f"gw-identity-{name}" for name in (*STANDING, "publisher-ci")]
    assert sorted(api.secrets) == sorted([*identities, "gw-signing", "gw-nats"])
    for name in (*STANDING, "publisher-ci"):
        held = files(api, f"gw-identity-{name}")
        assert sorted(held) == [f"{name}.nk", f"{name}.pub"]
        seed = tmp_path / f"{name}.nk"
        seed.write_bytes(held[f"{name}.nk"])
        seed.chmod(0o600)
        assert load(seed).identity == name
    key = tmp_path / "gatekeeper.pem"
    key.write_bytes(files(api, "gw-signing")["gatekeeper.pem"])
    key.chmod(0o600)
    assert keys.load(key).public.pem() == files(api, "gw-signing")["gatekeeper.pem.pub"]
    assert all(each["metadata"]["labels"] == {"app.kubernetes.io/instance": "gw"} for each in api.secrets.values())
    assert not re.search(r"S[A-Z2-7]{57}", done.stdout + done.stderr), "a seed was printed"


def test_the_servers_configurations_name_each_other_and_are_what_the_server_takes(api: ClusterApi, tmp_path: Path) -> None:
    assert provision(api, tmp_path / "home", "--servers", "3").returncode == 0
    held = files(api, "gw-nats")
    assert sorted(held) == ["cluster-password", "nats-1.conf", "nats-2.conf", "nats-3.conf"]
    for number in range(3):
        text = held[f"nats-{number + 1}.conf"].decode()
        assert f'server_name: "gw-nats-{number}"' in text
        for other in range(3):
            assert f"nats://gw-nats-{other}.gw-nats-servers:6222" in text
        path = tmp_path / "server.conf"
        path.write_text(text)
        environment = {"GATEWRIGHT_CLUSTER_PASSWORD": held["cluster-password"].decode()}
        tried = subprocess.run([find_binary(), "-t", "-c", path], env=environment, capture_output=True, text=True, check=False)
        assert tried.returncode == 0, tried.stderr


def test_a_second_run_changes_nothing(api: ClusterApi, tmp_path: Path) -> None:
    assert provision(api, tmp_path / "first", "--servers", "3").returncode == 0
    before = {name: files(api, name) for name in api.secrets}
    api.asked.clear()
    assert provision(api, tmp_path / "second", "--servers", "3").returncode == 0
    assert {name: files(api, name) for name in api.secrets} == before
    assert {method for method, _ in api.asked} == {"GET"}


def test_a_further_publisher_is_added_and_every_other_key_stays(api: ClusterApi, tmp_path: Path) -> None:
    assert provision(api, tmp_path / "first").returncode == 0
    before = {name: files(api, name) for name in api.secrets}
    assert provision(api, tmp_path / "second", "--publisher", "bot").returncode == 0
    after = {name: files(api, name) for name in api.secrets}
    assert set(after) - set(before) == {"gw-identity-publisher-bot"}
    assert {name for name in before if before[name] != after[name]} == {"gw-nats"}
    public = after["gw-identity-publisher-bot"]["publisher-bot.pub"].decode().strip()
    assert public in after["gw-nats"]["nats-1.conf"].decode()


def test_a_refused_creation_is_reported_and_ends_with_1(api: ClusterApi, tmp_path: Path) -> None:
    api.refuse.add("POST")
    done = provision(api, tmp_path / "home")
    assert done.returncode == 1
    assert "the cluster's API answers 403" in done.stderr
    assert not api.secrets


def test_an_api_that_another_authority_vouches_for_gets_no_token(api: ClusterApi, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with cluster_api(other) as stranger:
        (api.account / "ca.crt").write_bytes((stranger.account / "ca.crt").read_bytes())
        done = provision(api, tmp_path / "home")
    assert done.returncode == 1
    assert "cannot reach the cluster's API" in done.stderr
    assert not api.asked


def test_a_secret_that_names_a_file_elsewhere_writes_into_the_folder_alone(api: ClusterApi, tmp_path: Path) -> None:
    evil = {"../../escaped": base64.b64encode(b"x").decode()}
    api.secrets["gw-identity-worker"] = {"metadata": {"name": "gw-identity-worker"}, "data": evil}
    provision(api, tmp_path / "home")
    assert not (tmp_path / "escaped").exists()
    assert not (tmp_path.parent / "escaped").exists()


def test_the_chart_names_the_identities_and_the_version_of_the_package() -> None:
    helpers = (CHART / "templates" / "_helpers.tpl").read_text()
    listed = re.search(r"\$names := list ((?:\"[a-z]+\" ?)+)", helpers)
    assert listed is not None
    assert sorted(listed.group(1).replace('"', "").split()) == sorted(STANDING)
    assert f'appVersion: "{__version__}"' in (CHART / "Chart.yaml").read_text()
