"""What operators of clusters expect of a chart, checked on rendered objects; and its notes, tried as they are printed."""

import base64
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

#: What every pod of a case has where ``scheduling`` asks for it.
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
#: Answers as kubectl does where the notes ask it for a Secret, and shows what else it was asked.
_KUBECTL = """#!/bin/sh
case "$*" in
    *"get secret"*"{.data.publisher\\.nk}"* | *"get secret"*"{.data.publisher\\.creds}"*) printf %s "$SECRET" ;;
    *) echo "kubectl $*" >&2 ;;
esac
"""


def pod_templates(documents: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each pod with its metadata and specification, by component."""
    for each in documents:
        if each["kind"] == "Pod":
            yield each["metadata"]["labels"]["app.kubernetes.io/component"], each
        elif each["kind"] in {"Deployment", "StatefulSet", "Job"}:
            template = each["spec"]["template"]
            yield template["metadata"]["labels"]["app.kubernetes.io/component"], template


def faults_of_operations(documents: list[dict[str, Any]]) -> Iterator[str]:
    """1. a pod asks for the disk it writes to  2. an image is one version  3. Go knows its memory  4. a server that lags is not
    killed  5. each pod has a policy of the network where any has one.
    """
    policies = [each["spec"] for each in documents if each["kind"] == "NetworkPolicy"]
    for component, template in pod_templates(documents):
        pod = template["spec"]
        on_disk = any(volume.get("emptyDir", {}).get("medium", "") == "" for volume in pod["volumes"] if "emptyDir" in volume)
        for container in pod["containers"]:
            if on_disk and "ephemeral-storage" not in container["resources"]["requests"]:  # 1
                yield f"{component}: writes to its node's disk and asks for none of it"
            if not _ONE_VERSION.search(container["image"]):  # 2
                yield f"{component}: {container['image']} is another image tomorrow"
            if component == "nats":
                yield from _faults_of_server(container)  # 3, 4
        if policies and not any(selects(policy["podSelector"], template["metadata"]["labels"]) for policy in policies):  # 5
            yield f"{component}: no policy of the network"


def _faults_of_server(container: dict[str, Any]) -> Iterator[str]:
    most = _QUANTITY.fullmatch(container["resources"]["limits"]["memory"])
    limit = int(most[1]) << {"Mi": 20, "Gi": 30}[most[2]] if most else 0
    given = {entry["name"]: entry["value"] for entry in container["env"]}
    if not 0.8 * limit < int(given.get("GOMEMLIMIT", 0)) < limit:
        yield f"nats: GOMEMLIMIT {given.get('GOMEMLIMIT')} of {limit}"
    if container["livenessProbe"]["httpGet"]["path"] != "/healthz?js-enabled-only=true":
        yield "nats: a stream that lags ends its server"


def faults_of_scheduling(documents: list[dict[str, Any]]) -> Iterator[str]:
    """Every pod may run only where ``scheduling`` says; what a constraint counts are pods of the same component."""
    for component, template in pod_templates(documents):
        pod = template["spec"]
        for name, value in SCHEDULING.items():
            given = pod.get(name)
            if name == "topologySpreadConstraints" and given:
                given = [{key: part for key, part in each.items() if key != "labelSelector"} for each in given]
                labels = template["metadata"]["labels"].items()
                if any(not each["labelSelector"]["matchLabels"].items() <= labels for each in pod[name]):
                    yield f"{component}: a constraint counts other pods"
            if given != value:
                yield f"{component}: {name} is {given}"


def faults_of_changes(
    before: list[dict[str, Any]], after: list[dict[str, Any]], version: list[dict[str, Any]]
) -> Iterator[str]:
    """A Job that is another has another name; pods that read policies are replaced when those change. ``version`` differs from
    ``before`` in the version of its policies alone, ``after`` in its publishers.
    """
    jobs = [{each["metadata"]["name"]: each["spec"] for each in some if each["kind"] == "Job"} for some in (before, after)]
    for name, spec in jobs[0].items():
        if not name.endswith("-keys") and jobs[1].get(name, spec) != spec:  # helm itself replaces the Jobs of hooks
            yield f"{name}: a Job cannot be changed"
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
            yield f"{component}: keeps the policies that it has read"


def faults_of_notes(notes: str) -> Iterator[str]:
    """The commands that the notes print: run by a shell, with a kubectl that answers as a cluster does."""
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
            yield f"the commands fail: {done.stderr.strip()}"
        elif seed.stat().st_mode & 0o077:
            yield f"others can read {seed.name}, so gatewright refuses it"
        if not re.fullmatch(r"(nats|tls)://\S+:\d+", given.get("GATEWRIGHT_NATS_URL", "")):
            yield "they name no server"


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a selector of a policy finds pods with these labels."""
    barred = any(labels.get(each["key"]) in each["values"] for each in selector.get("matchExpressions", ()))
    return not barred and bool(selector.get("matchLabels", {}).items() <= labels.items())
