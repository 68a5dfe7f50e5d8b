"""The Helm chart's pods as containers: no volume that roles share, a private repository, keys made by the chart's own job."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import shutil
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gatewright.bus.identities import BusAddress
from gatewright.client.sync import SyncClient
from gatewright.contracts import RunRequest
from gatewright.contracts.vocabulary import AcceptanceTest, Executor, Repository
from tests.compose.deployment import ROOT, copy_checkout, engine, wait_until
from tests.compose.pods import Pods, decoded, rendered
from tests.deploy.cluster_api import TOKEN, ClusterApi, cluster_api
from tests.e2e.conftest import FILES
from tests.git.access.servers import PUSH, READ, GitServer, git_server, make_certificate

pytestmark = pytest.mark.compose

RELEASE = "gatewright"
ROLES = ("gatekeeper", "pm", "techlead", "worker", "reviewer", "testrunner")
EDIT = "python tools/edit.py 0 {paths}"
CHECK = "python tools/check.py 0"
#: What people call the live page; and what it says at an address, under a name.
PAGE = "board.example"
ASK = """import http.client, sys
page = http.client.HTTPConnection("127.0.0.1", 8790, timeout=30)
page.request("GET", sys.argv[1], headers={"Host": sys.argv[2]})
answer = page.getresponse()
print(answer.status, answer.getheader("location") or answer.read(60).decode().strip())
"""


@dataclass(frozen=True)
class Cluster:
    """``pods`` run as the compose project ``project``; ``git`` is a server with tokens that they reach."""

    pods: Pods
    project: str
    git: GitServer
    api: ClusterApi

    def do(self, *words: str, seconds: float = 300.0, check: bool = True) -> str:
        argv = ["docker", "compose", "--project-name", self.project, "--file", str(self.pods.folder / "pods.json"), *words]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=seconds)
        assert not check or done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def write(self, *kinds: str) -> dict[str, Any]:
        """The compose file of these kinds; its services."""
        document = self.pods.compose(kinds)
        (self.pods.folder / "pods.json").write_text(json.dumps(document))
        services: dict[str, Any] = document["services"]
        return services

    def ready(self, pod: str) -> bool:
        """What the kubelet would ask the pod of a role."""
        asked = self.do("exec", "-T", pod, "gatewright-health", check=False)
        return asked.strip().endswith("ok") or '"ok"' in asked

    def seed(self, identity: str) -> Path:
        place = self.pods.folder / f"{identity}.nk"
        if not place.exists():
            place.write_bytes(self.pods.secrets[f"{RELEASE}-identity-{identity}"][f"{identity}.nk"])
            place.chmod(0o600)
        return place

    def address(self, identity: str) -> BusAddress:
        """A server's own address: a bridge of the engine is reached from this host."""
        container = self.do("ps", "--quiet", f"{RELEASE}-nats-0").strip()
        found = json.loads(engine("inspect", "--format", "{{json .NetworkSettings.Networks}}", container))
        return BusAddress(f"nats://{found[f'{self.project}_bus']['IPAddress']}:4222", self.seed(identity))


def bare_repository(root: Path, name: str, files: Mapping[str, bytes]) -> Path:
    """What a git server has: the project's one branch, ``main``."""
    work, bare = root / f"{name}.work", root / f"{name}.git"
    for file, content in files.items():
        place = work / file
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    who = ("-c", "user.name=A. Person", "-c", "user.email=person@example.org")
    for words in (("init", "-q", "-b", "main"), ("add", "--all"), (*who, "commit", "-q", "-m", "first")):
        subprocess.run(["git", "-C", str(work), *words], check=True, timeout=60)
    subprocess.run(["git", "clone", "-q", "--bare", str(work), str(bare)], check=True, timeout=60)
    return bare


def values(image: str, rules: list[str]) -> dict[str, Any]:
    """One network of two nodes' worth: two of each role that may be two, three NATS servers, a private git server."""
    authority = {
        "extraVolumes": [{"name": "git-authority", "configMap": {"name": "git-authority"}}],
        "extraVolumeMounts": [{"name": "git-authority", "mountPath": "/etc/git-authority", "readOnly": True}],
    }

    def key(name: str) -> dict[str, Any]:
        return {"name": name, "valueFrom": {"secretKeyRef": {"name": "git", "key": name}}}

    roles: dict[str, dict[str, Any]] = {
        role: {**authority, "extraEnv": [key("GIT_READ_TOKEN")]} for role in ROLES if role != "pm"
    }
    roles["gatekeeper"]["extraEnv"].append(key("GIT_PUSH_TOKEN"))
    return {
        "image": {"repository": image, "tag": "chart", "pullPolicy": "Never"},
        # The image of the compose file.
        "nats": {"image": {"tag": "2.12-alpine"}},
        "policies": {"configMap": "policies", "organisation": {"configMap": "rules", "files": rules}},
        "roles": roles,
        "identities": {"publishers": ["ci"]},
        "console": {"enabled": True, "hostName": PAGE, "tokens": {"secret": "page", "roles": ["viewer", "operator"]}},
    }


def host_of_containers() -> str:
    """This host's address as containers reach it; an engine that was not told of one takes the first of its network."""
    (network,) = json.loads(engine("network", "inspect", "bridge", "--format", "{{json .IPAM.Config}}"))
    return str(network.get("Gateway") or next(ipaddress.ip_network(network["Subnet"]).hosts()))


@pytest.fixture(scope="module")
def cluster(engine_here: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("chart")
    project = f"gatewright-chart-{uuid.uuid4().hex[:8]}"
    gateway = host_of_containers()
    copy_checkout(folder / "checkout")
    subprocess.run(["docker", "build", "-q", "-t", f"{project}:chart", folder / "checkout"], check=True, timeout=900)
    pods = Pods(rendered(values(project, [each.name for each in (ROOT / "policies" / "organisation").iterdir()])), folder)
    authority = make_certificate(folder / "git-authority", host=gateway)
    repositories = folder / "repositories"
    repositories.mkdir()
    rights = {READ: frozenset({"read"}), PUSH: frozenset({"read", "push"})}
    with (
        contextlib.ExitStack() as afterwards,
        git_server(repositories, authority, rights, host=gateway) as git,
        cluster_api(folder, host=gateway) as api,
    ):
        it = Cluster(pods, project, git, api)
        afterwards.callback(engine, "image", "rm", "--force", f"{project}:chart", check=False)
        afterwards.callback(it.do, "down", "--volumes", "--timeout", "5", check=False)
        _give(it, authority)
        _make_keys(it)
        it.write("Deployment", "StatefulSet", "Job")
        it.do("up", "--detach", "--no-build", "--pull", "never")
        pending = list(it.pods.compose(("Deployment",))["services"])
        try:
            wait_until(lambda: all(it.ready(pod) for pod in pending), 240)
        except AssertionError:
            pytest.fail(it.do("logs", "--no-color", "--tail", "15", check=False)[-12000:])
        yield it


def _give(it: Cluster, authority: Path) -> None:
    """What an operator makes before the installation: tokens, the git server's authority, policies that name both."""
    policies = it.pods.folder / "policies"
    shutil.copytree(it.pods.folder / "checkout" / "policies", policies)
    entry = {
        "places": [f"https://{it.git.host}:{it.git.port}/"],
        "read": {"token": {"environment": "GIT_READ_TOKEN"}},
        "push": {"token": {"environment": "GIT_PUSH_TOKEN"}},
        "ca_file": "/etc/git-authority/authority.pem",
    }
    (policies / "repositories.json").write_text(json.dumps({"version": "1", "repositories": [entry]}))
    for name, place in (("policies", policies), ("rules", policies / "organisation")):
        it.pods.config_maps[name] = {each.name: each.read_bytes() for each in place.iterdir() if each.is_file()}
    it.pods.config_maps["git-authority"] = {"authority.pem": authority.read_bytes()}
    it.pods.secrets["page"] = {"viewer.token": b"a" * 32, "operator.token": b"b" * 32}
    it.pods.secrets["git"] = {"GIT_READ_TOKEN": READ.encode(), "GIT_PUSH_TOKEN": PUSH.encode()}


def _make_keys(it: Cluster) -> None:
    """The chart's own job, as a container with its account and walls, against the API that keeps Secrets."""
    keys = next(each for each in it.pods.objects if each["kind"] == "Job" and each["metadata"]["name"].endswith("-keys"))
    service = it.pods.service(keys)
    service["environment"] = {**it.api.environment(), "GATEWRIGHT_SERVICE_ACCOUNT": "/account"}
    service["volumes"].append(f"{it.api.account}:/account:ro")
    (it.pods.folder / "pods.json").write_text(
        json.dumps({"services": {"keys": service}, "networks": {"bus": {}, "outside": {}}})
    )
    it.do("run", "--rm", "-T", "keys")
    it.do("down", check=False)
    it.pods.objects.remove(keys)
    it.pods.secrets.update({name: decoded(secret) for name, secret in it.api.secrets.items()})


def request(it: Cluster, name: str, command: str = EDIT) -> RunRequest:
    return RunRequest(
        request="a change",
        repository=Repository(url=it.git.url(f"{name}.git"), landing="branch"),
        requested_by="tests",
        allowed_paths=("src",),
        acceptance_tests=(AcceptanceTest(name="edited", cmd=CHECK, must_pass=True),),
        executor=Executor(kind="command", commands=(command,)),
    )


def test_the_job_requests_only_its_named_secrets(cluster: Cluster) -> None:
    rights = next(each for each in cluster.pods.objects if each["kind"] == "Role")
    named = {name for rule in rights["rules"] for name in rule.get("resourceNames", ())}
    assert {name for _, name in cluster.api.asked} <= named
    assert TOKEN not in cluster.do("config")


def test_the_live_page_is_ready_and_reveals_nothing_to_strangers(cluster: Cluster) -> None:
    pod = f"{RELEASE}-console-0"
    asked = (("/readyz", "10.1.2.3:8790"), ("/", PAGE), ("/system", PAGE), ("/", "10.1.2.3:8790"))
    told = [cluster.do("exec", "-T", pod, "python", "-c", ASK, *words).strip() for words in asked]
    assert told == ["200 ok", "303 /sign-in", "303 /sign-in", "421 this name is not known here"]


def test_a_private_repositorys_change_lands_by_push_and_verifies(cluster: Cluster) -> None:
    bare = bare_repository(cluster.git.root, "private", FILES)
    cluster.git.seen.clear()
    with SyncClient(cluster.address("publisher-ci"), requested_by="tests") as client:
        run_id = client.submit_request(request(cluster, "private"))
        run = client.wait(run_id, timeout=180)
    assert run.state == "S6", run.failure
    branch = subprocess.run(
        ["git", "-C", str(bare), "show", f"gatewright/{run_id}:src/a.py"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    assert branch == "a = 1\nedited = True\n"
    bundle = f"/var/lib/gatewright/runs/{run_id}"
    checked = cluster.do("exec", "-T", f"{RELEASE}-gatekeeper-0", "gatewright", "verify", bundle, "--json")
    assert json.loads(checked.splitlines()[-1])["ok"] is True
    pushes = {each.password for each in cluster.git.seen if "git-receive-pack" in each.path and each.password is not None}
    assert pushes == {PUSH}


def test_two_runs_land_on_one_branch_by_its_merge_queue(cluster: Cluster) -> None:
    bare = bare_repository(cluster.git.root, "queued", FILES)
    to_main = Repository(url=cluster.git.url("queued.git"), landing="queue", target_ref="refs/heads/main")
    passing = (AcceptanceTest(name="passes", cmd="true", must_pass=True),)
    with SyncClient(cluster.address("publisher-ci"), requested_by="tests") as client:
        runs = [
            client.submit_request(
                replace(request(cluster, "queued"), repository=to_main, allowed_paths=(path,), acceptance_tests=passing)
            )
            for path in ("src/a.py", "src/b.py")
        ]
        ended = [client.wait(run_id, timeout=180) for run_id in runs]
    assert [run.state for run in ended] == ["S6", "S6"], [run.failure for run in ended]
    landed = {run.landed.commit for run in ended if run.landed is not None}
    first_parents = ["git", "-C", str(bare), "rev-list", "--first-parent", "main"]
    commits = subprocess.run(first_parents, capture_output=True, text=True, check=True, timeout=60).stdout.split()
    assert set(commits[:-1]) == landed
    assert len(landed) == 2
    for run_id in runs:
        bundle = f"/var/lib/gatewright/runs/{run_id}"
        checked = cluster.do("exec", "-T", f"{RELEASE}-gatekeeper-0", "gatewright", "verify", bundle, "--json")
        assert json.loads(checked.splitlines()[-1])["ok"] is True


def test_the_token_that_pushes_is_in_no_pod_but_the_gatekeepers(cluster: Cluster) -> None:
    for pod in cluster.pods.compose(("Deployment",))["services"]:
        variables = cluster.do("exec", "-T", pod, "env")
        assert (PUSH in variables) is ("gatekeeper" in pod), pod


def test_pods_share_no_folder_but_what_is_given_to_read(cluster: Cluster) -> None:
    written: dict[str, str] = {}
    for pod, service in cluster.pods.compose(("Deployment", "StatefulSet"))["services"].items():
        for mount in service["volumes"]:
            place, _, mode = mount.split(":")
            if mode == "rw":
                assert written.setdefault(place, pod) == pod


def test_runs_go_on_when_the_node_of_half_the_pods_is_lost(cluster: Cluster) -> None:
    bare_repository(cluster.git.root, "lossy", FILES)
    with SyncClient(cluster.address("publisher-ci"), requested_by="tests") as client:
        runs = [client.submit_request(request(cluster, "lossy", "python tools/edit.py 2 {paths}")) for _ in range(4)]
        lost = [pod for pod in cluster.pods.compose(("Deployment", "StatefulSet"))["services"] if pod.endswith("-1")]
        cluster.do("kill", *lost)
        ended = {run: client.wait(run, timeout=240).state for run in runs}
    assert set(ended.values()) == {"S6"}, ended
