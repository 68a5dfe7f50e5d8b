"""Check rendered objects for what cluster operators expect of a chart, and run the commands of its notes."""

import base64
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

#: The values of ``scheduling`` that every pod of a case must have.
SCHEDULING: Mapping[str, Any] = {
    "nodeSelector": {"pool": "delivery"},
    "tolerations": [{"key": "delivery", "operator": "Exists"}],
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}
    ],
    "priorityClassName": "delivery",
}
_ONE_VERSION = re.compile(r"@sha256:[0-9a-f]{64}$|:[0-9]+\.[0-9]+\.[0-9]+(-[a-z0-9.]+)?$")
_QUANTITY = re.compile(r"([0-9]+)(Mi|Gi)")
_SEED = b"a seed, of the notes' test"
#: A stand-in for kubectl: it prints a Secret for `get secret`, and reports other commands on standard error.
_KUBECTL = """#!/bin/sh
case "$*" in
    *"get secret"*"{.data.publisher\\.nk}"* | *"get secret"*"{.data.publisher\\.creds}"*) printf %s "$SECRET" ;;
    *) echo "kubectl $*" >&2 ;;
esac
"""


def pod_templates(documents: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the component and the template (metadata and specification) of each pod."""
    for each in documents:
        if each["kind"] == "Pod":
            yield each["metadata"]["labels"]["app.kubernetes.io/component"], each
        elif each["kind"] in {"Deployment", "StatefulSet", "Job"}:
            template = each["spec"]["template"]
            yield template["metadata"]["labels"]["app.kubernetes.io/component"], template


def faults_of_operations(documents: list[dict[str, Any]]) -> Iterator[str]:
    """Check the numbered rules.

    1. A pod requests the disk space that it writes to.
    2. An image has a fixed version.
    3. GOMEMLIMIT is below the memory limit.
    4. Liveness does not depend on streams that catch up.
    5. If there are network policies, each pod has one.
    """
    policies = [each["spec"] for each in documents if each["kind"] == "NetworkPolicy"]
    for component, template in pod_templates(documents):
        pod = template["spec"]
        on_disk = any(volume.get("emptyDir", {}).get("medium", "") == "" for volume in pod["volumes"] if "emptyDir" in volume)
        for container in pod["containers"]:
            if on_disk and "ephemeral-storage" not in container["resources"]["requests"]:  # 1
                yield f"{component}: writes to the node's disk and requests no ephemeral-storage"
            if not _ONE_VERSION.search(container["image"]):  # 2
                yield f"{component}: the image {container['image']} has no fixed version"
            if component == "nats":
                yield from _faults_of_server(container)  # 3, 4
        if policies and not any(selects(policy["podSelector"], template["metadata"]["labels"]) for policy in policies):  # 5
            yield f"{component}: has no network policy"


def _faults_of_server(container: dict[str, Any]) -> Iterator[str]:
    most = _QUANTITY.fullmatch(container["resources"]["limits"]["memory"])
    limit = int(most[1]) << {"Mi": 20, "Gi": 30}[most[2]] if most else 0
    given = {entry["name"]: entry["value"] for entry in container["env"]}
    if not 0.8 * limit < int(given.get("GOMEMLIMIT", 0)) < limit:
        yield f"nats: GOMEMLIMIT {given.get('GOMEMLIMIT')} is not between 80 % and 100 % of the memory limit {limit}"
    if container["livenessProbe"]["httpGet"]["path"] != "/healthz?js-enabled-only=true":
        yield "nats: a stream that catches up fails the liveness probe"


def faults_of_scheduling(documents: list[dict[str, Any]]) -> Iterator[str]:
    """Check that every pod has the values of ``SCHEDULING``, and that its constraints select pods of its component."""
    for component, template in pod_templates(documents):
        pod = template["spec"]
        for name, value in SCHEDULING.items():
            given = pod.get(name)
            if name == "topologySpreadConstraints" and given:
                given = [{key: part for key, part in each.items() if key != "labelSelector"} for each in given]
                labels = template["metadata"]["labels"].items()
                if any(not each["labelSelector"]["matchLabels"].items() <= labels for each in pod[name]):
                    yield f"{component}: a constraint selects other pods"
            if given != value:
                yield f"{component}: {name} is {given}, not {value}"


def faults_of_changes(
    before: list[dict[str, Any]], after: list[dict[str, Any]], version: list[dict[str, Any]]
) -> Iterator[str]:
    """Check that a changed Job has a new name, and that pods with policies are replaced when the policies change.

    ``after`` differs from ``before`` in its publishers, ``version`` in the version of its policies.
    """
    jobs = [{each["metadata"]["name"]: each["spec"] for each in some if each["kind"] == "Job"} for some in (before, after)]
    for name, spec in jobs[0].items():
        if not name.endswith("-keys") and jobs[1].get(name, spec) != spec:  # Helm replaces the Jobs of hooks
            yield f"{name}: its specification changes and its name does not"
    sums = [
        {
            component: template["metadata"].get("annotations", {}).get("checksum/policies")
            for component, template in pod_templates(some)
            if any(volume["name"] == "policies" for volume in template["spec"]["volumes"])
        }
        for some in (before, version)
    ]
    for component, checksum in sums[0].items():
        if checksum is None or checksum == sums[1][component]:
            yield f"{component}: a change of the policies does not replace it"


def faults_of_notes(notes: str) -> Iterator[str]:
    """Run the commands of the notes in a shell, with a stand-in for kubectl."""
    lines = notes.partition("Publish from your machine:\n")[2].partition("\n\n")[0]
    script = re.sub(r"^(  GATEWRIGHT_.*) gatewright submit", r"\1 env -u PATH /usr/bin/env", lines, flags=re.MULTILINE)
    with tempfile.TemporaryDirectory() as folder:
        kubectl = Path(folder, "bin", "kubectl")
        kubectl.parent.mkdir()
        kubectl.write_text(_KUBECTL)
        kubectl.chmod(0o755)
        environment = {
            "PATH": f"{kubectl.parent}{os.pathsep}{os.environ['PATH']}",
            "SECRET": base64.b64encode(_SEED).decode(),
        }
        done = subprocess.run(
            ["sh", "-ec", f"umask 022\n{script.replace(' request.json', '')}\nwait"],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        given = dict(line.partition("=")[::2] for line in done.stdout.splitlines())
        seed = Path(folder, given.get("GATEWRIGHT_NATS_SEED", "none"))
        if done.returncode != 0 or not seed.is_file() or seed.read_bytes() != _SEED:
            yield f"a command fails: {done.stderr.strip()}"
        elif seed.stat().st_mode & 0o077:
            yield f"other users can read {seed.name}, so gatewright refuses it"
        if not re.fullmatch(r"(nats|tls)://\S+:\d+", given.get("GATEWRIGHT_NATS_URL", "")):
            yield "GATEWRIGHT_NATS_URL is not the URL of a server"


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether a selector of a policy matches these labels."""
    barred = any(labels.get(each["key"]) in each["values"] for each in selector.get("matchExpressions", ()))
    return not barred and bool(selector.get("matchLabels", {}).items() <= labels.items())
