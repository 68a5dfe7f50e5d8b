"""What the files of the deployment promise, read without an engine."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from gatewright.environment_state import MADE
from tests.compose.deployment import BASE, CLUSTER, MODELS, MONITORING, ROOT, SERVICES

yaml = pytest.importorskip("yaml", reason="PyYAML, of the development dependencies, is missing")

FILES = (BASE, CLUSTER, MODELS, MONITORING)
#: Where commands of a contract, or installers, run.
SANDBOXES = frozenset({"worker", "testrunner", "puller"})
#: System calls that reach the kernel or the host past every namespace; with no capability most would fail anyhow.
NEVER = frozenset(
    {"add_key", "bpf", "chroot", "delete_module", "fanotify_init", "finit_module", "fsmount", "fsopen", "init_module"}
    | {"io_uring_enter", "io_uring_register", "io_uring_setup", "iopl", "ioperm", "kcmp", "kexec_file_load", "kexec_load"}
    | {"keyctl", "mount_setattr", "move_mount", "open_by_handle_at", "open_tree", "perf_event_open", "pidfd_getfd"}
    | {"quotactl", "reboot", "request_key", "setns", "settimeofday", "swapon", "syslog", "userfaultfd"}
)

# Compose's own tag: what is under it replaces, instead of being merged.
yaml.SafeLoader.add_constructor("!override", lambda loader, node: loader.construct_sequence(node, deep=True))


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / name).read_text())
    return found


def services() -> list[tuple[str, dict[str, Any]]]:
    """Every service of every file, an extension with what it extends; what only adds to another file's service is left out."""
    base = read(BASE)["services"]
    found = [*base.items()]
    for name in (CLUSTER, MONITORING):
        for service, body in read(name)["services"].items():
            if "extends" in body:
                found.append((service, {**base[body["extends"]["service"]], **body}))
            elif service not in base:
                found.append((service, body))
    return found


EVERY = services()


@pytest.mark.parametrize(("name", "service"), EVERY, ids=[name for name, _ in EVERY])
def test_every_service_is_confined_and_bounded(name: str, service: dict[str, Any]) -> None:
    user = re.sub(r"\$\{\w+:-(\d+)\}", r"\1", service["user"])
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user), f"{name} runs as {user}"
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert service["mem_limit"]
    assert service["cpus"]
    assert service["pids_limit"]
    assert service["init"] is True
    for wish in ("privileged", "cap_add", "pid", "ipc", "devices", "userns_mode"):
        assert wish not in service
    assert "docker.sock" not in json.dumps(service)
    assert "host" not in {service.get("network_mode"), *service.get("networks", ())}


@pytest.mark.parametrize(("name", "service"), EVERY, ids=[name for name, _ in EVERY])
def test_what_stays_up_is_watched_and_started_again(name: str, service: dict[str, Any]) -> None:
    if service["restart"] == "no":
        assert name in {"keys", "topology", "cli"}
        return
    assert service["restart"] == "unless-stopped"
    assert service["healthcheck"]["test"][0] == "CMD"


def test_the_six_services_are_there_and_check_their_own_readiness() -> None:
    found = read(BASE)["services"]
    for name in SERVICES:
        assert found[name]["command"] == ["python", "-m", f"gatewright.services.{name}"]
        assert found[name]["healthcheck"]["test"] == ["CMD", "gatewright-health"]


def test_only_what_runs_commands_has_the_profile_of_the_sandbox() -> None:
    for name, service in EVERY:
        loosened = {option for option in service["security_opt"] if option != "no-new-privileges:true"}
        expected = {"seccomp:./deploy/seccomp/sandbox.json", "apparmor=unconfined", "systempaths=unconfined"}
        assert loosened == (expected if name in SANDBOXES else set()), name


def test_every_service_mounts_its_own_identity_alone_and_none_can_be_written() -> None:
    for name, service in EVERY:
        if name == "keys":
            continue
        identities = [each for each in service["volumes"] if isinstance(each, str) and each.startswith("identit")]
        owner = {"cli": "operator", "topology": "provisioner"}.get(name, name)
        owners = {*SERVICES, "cli", "topology", "console", "retention", "forge", "puller"}
        expected = [f"identity-{owner}:/etc/gatewright/identity:ro"] if name in owners else []
        assert identities == expected, name


def test_only_the_gatekeeper_has_repositories_and_the_signing_key() -> None:
    for name, service in EVERY:
        volumes = [each for each in service["volumes"] if isinstance(each, str)]
        assert all(each.endswith(":ro") for each in volumes if ":/repositories" in each) or name == "gatekeeper"
        assert not any(each.startswith("gatekeeper-state:") for each in volumes) or name in {"gatekeeper", "keys"}


def test_ports_are_published_on_the_loopback_interface_alone() -> None:
    published = [port for name in FILES for service in read(name)["services"].values() for port in service.get("ports", ())]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_the_live_page_requires_sign_in_and_cannot_write_evidence() -> None:
    console = read(BASE)["services"]["console"]
    words = console["command"]
    assert {word.partition("=")[2].partition("=")[0] for word in words if word.startswith("--token-file=")} == {
        *("viewer", "approver", "operator")
    }
    assert "--behind-proxy" in words
    assert all(port.startswith("127.0.0.1:") for port in console["ports"])
    assert "operator.nk" not in json.dumps(console)
    kept = [each for each in console["volumes"] if each.startswith(("bundles:", "trusted-keys:", "identity-"))]
    assert len(kept) == 3
    assert all(each.endswith(":ro") for each in kept)


def test_the_retention_container_runs_on_request_without_repositories() -> None:
    retention = read(BASE)["services"]["retention"]
    assert retention["profiles"] == ["retention"]
    words = retention["command"]
    assert words[:4] == ["gatewright", "gc", "--ledger", "--yes"]
    assert {word.partition("=")[0] for word in words[4:]} == {"--every", "--keys"}
    written = {each.split(":")[0] for each in retention["volumes"] if not each.endswith(":ro")}
    assert written == {"bundles", "retention-state"}
    assert "repositories" not in json.dumps(retention["volumes"])


def test_branches_expire_in_a_container_without_identity_or_bus() -> None:
    branches = read(BASE)["services"]["branches"]
    assert branches["profiles"] == ["branches"]
    assert branches["command"][:5] == ["gatewright", "refs", "tidy", "--expired", "--yes"]
    assert branches["networks"] == ["outside"]
    assert not [name for name in branches["environment"] if "NATS" in name]
    assert {each.split(":")[0] for each in branches["volumes"] if not each.endswith(":ro")} == {"branches-state"}
    assert "credentials" not in json.dumps(read(BASE)["services"]["retention"])


def test_the_forge_process_writes_to_no_repository_or_bundle() -> None:
    forge = read(BASE)["services"]["forge"]
    assert forge["profiles"] == ["forge"]
    assert forge["command"][:2] == ["gatewright", "forge"]
    seeds = re.findall(r"[a-z-]+\.nk", json.dumps(forge))
    assert set(seeds) == {"watcher.nk", "publisher-forge.nk"}
    assert "--behind-proxy" in forge["command"]
    assert {each.split(":")[0] for each in forge["volumes"] if not each.endswith(":ro")} == {"forge-state"}
    assert not {"bundles", "trusted-keys"} & {each.split(":")[0] for each in forge["volumes"]}


def test_the_puller_alone_writes_the_environments_that_roles_see() -> None:
    found = read(BASE)["services"]
    puller = found["puller"]
    assert puller["profiles"] == ["puller"]
    assert {each.split(":")[0] for each in puller["volumes"] if not each.endswith(":ro")} == {"puller-state", "prepared"}
    home = puller["environment"]["GATEWRIGHT_HOME"]
    assert f"prepared:{home}" in puller["volumes"]
    seeing = {name for name, service in found.items() if f"prepared:{home}:ro" in service["volumes"]}
    assert seeing == SANDBOXES - {"puller"}
    assert all(f"{home}/{MADE}/*" in found[name]["environment"]["GATEWRIGHT_ENVIRONMENTS"] for name in seeing)
    assert "repositories" not in json.dumps(puller["volumes"])


def test_each_identity_that_is_handed_out_has_a_folder_in_the_image() -> None:
    """A new volume takes over the owner of the folder that it is mounted on; else it is root's, and takes nothing."""
    shared = {each.rpartition("/")[2] for each in read(BASE)["services"]["keys"]["volumes"] if ":/srv/share/" in each}
    made = re.search(r"for identity in ([a-z ]+); do", (ROOT / "Dockerfile").read_text())
    assert made is not None
    assert shared == set(made[1].split())


def test_the_bus_reaches_nothing_outside() -> None:
    assert read(BASE)["networks"]["bus"] == {"internal": True}
    assert read(BASE)["services"]["pm"]["networks"] == ["bus"]


def test_the_seccomp_profile_allows_exactly_what_bubblewrap_needs() -> None:
    profile = json.loads((ROOT / "deploy/seccomp/sandbox.json").read_bytes())
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO"
    freely = [group for group in profile["syscalls"] if group["action"] == "SCMP_ACT_ALLOW" and not group.get("args")]
    ordinary, sandbox = (set(group["names"]) for group in freely)
    assert sandbox == {"clone", "mount", "pivot_root", "sethostname", "setns", "umount2", "unshare"}
    assert not ordinary & (sandbox | NEVER | {"clone3", "socket", "personality"})
    assert not any("includes" in group for group in profile["syscalls"])
    (vsock,) = [group for group in profile["syscalls"] if group["names"] == ["socket"]]
    assert vsock["args"] == [{"index": 0, "value": 40, "op": "SCMP_CMP_NE"}]


def test_the_image_is_locked_and_names_no_registry() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert "--require-hashes" in dockerfile
    assert not re.search(r"https?://|--index-url|--trusted-host|^# syntax", dockerfile, re.MULTILINE)
    assert re.search(r"^USER \$\{UID\}", dockerfile, re.MULTILINE)
    for lock in (ROOT / "requirements.lock", ROOT / "deploy/image/requirements-build.lock"):
        entries = [line for line in lock.read_text().splitlines() if "==" in line]
        assert entries
        assert lock.read_text().count("--hash=sha256:") >= len(entries)


def test_tools_of_other_languages_are_added_on_request_only() -> None:
    assert re.search(r"^ARG TOOLS=\"\"$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert read(BASE)["services"]["keys"]["build"]["args"]["TOOLS"] == "${GATEWRIGHT_TOOLS:-}"


def test_nothing_goes_into_the_image_but_what_is_named() -> None:
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert rules[0] == "*"
    wanted = {rule[1:] for rule in rules if rule.startswith("!")}
    assert not wanted & {".", ".git", "tests", ".gatewright", "docs"}
    assert all((ROOT / name).exists() for name in wanted)


def test_the_guide_names_every_variable_of_the_files() -> None:
    guide = (ROOT / "docs" / "deploy.md").read_text()
    named = {name for file in FILES for name in re.findall(r"\$\{(GATEWRIGHT_\w+)", (ROOT / file).read_text())}
    assert sorted(name for name in named if name not in guide) == []


def test_what_starts_containers_is_marked() -> None:
    for file in Path(__file__).parent.glob("test_*.py"):
        starts = re.search(r"\b(system|cluster): Deployment", file.read_text())
        assert not starts or "pytestmark = pytest.mark.compose" in file.read_text()
