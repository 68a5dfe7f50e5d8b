"""The pods of the Helm chart as containers of a plain engine, with the image, walls, variables and mounts that the chart says.

What a kubelet does is done here: files of a Secret belong to root and, by ``fsGroup``, to the pod's group (mode 0440); an
``emptyDir`` is the pod's alone, owned by root, mode 2777; a ``subPath`` is a folder of its claim. Every pod of a Deployment is
a container of its own, and none shares a folder with another but by a claim. Not to be had here: user namespaces of pods.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_SECCOMP = ROOT / "deploy" / "seccomp" / "sandbox.json"
_COMPONENT = "app.kubernetes.io/component"

Object = dict[str, Any]


def rendered(values: Mapping[str, Any]) -> list[Object]:
    """The chart's objects, by Helm's own library."""
    subprocess.run(["make", ".venv-chart/.ready"], cwd=ROOT, capture_output=True, check=True, timeout=300)
    done = subprocess.run(
        [ROOT / ".venv-chart" / "bin" / "python", ROOT / "deploy" / "helm" / "check.py", "--render"],
        input=json.dumps(values),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    objects: list[Object] = json.loads(done.stdout)
    return objects


@dataclass
class Pods:
    """``secrets`` and ``config_maps``: files by name, as the cluster has them. ``folder`` is the disk of all nodes."""

    objects: list[Object]
    folder: Path
    secrets: dict[str, dict[str, bytes]] = field(default_factory=dict)
    config_maps: dict[str, dict[str, bytes]] = field(default_factory=dict)

    def compose(self, kinds: tuple[str, ...]) -> Object:
        """A compose file with the pods of objects of these kinds."""
        services = {name: self._service(name, labels, spec) for name, labels, spec in self._pods(kinds)}
        return {"services": services, "networks": {"bus": {"internal": True}, "outside": {}}}

    def _pods(self, kinds: tuple[str, ...]) -> Iterator[tuple[str, Mapping[str, str], Object]]:
        for each in self.objects:
            if each["kind"] not in kinds:
                continue
            template, name = each["spec"]["template"], each["metadata"]["name"]
            if each["kind"] == "Job":
                yield name, template["metadata"]["labels"], template["spec"]
                continue
            for number in range(each["spec"]["replicas"]):
                yield f"{name}-{number}", template["metadata"]["labels"], template["spec"]

    def service(self, job: Object) -> Object:
        """The one pod of a Job."""
        template = job["spec"]["template"]
        return self._service(job["metadata"]["name"], template["metadata"]["labels"], template["spec"])

    def _service(self, name: str, labels: Mapping[str, str], spec: Object) -> Object:
        container, account = spec["containers"][0], spec["securityContext"]
        walls, component = container["securityContext"], labels[_COMPONENT]
        guards = ["no-new-privileges:true"] if not walls["allowPrivilegeEscalation"] else []
        if walls.get("procMount") == "Unmasked":
            guards += ["systempaths=unconfined", "apparmor=unconfined", f"seccomp={_SECCOMP}"]
        mounts, memory = self._mounts(name, spec)
        outside = component == "keys" or self._reaches_outside(component)
        service: Object = {
            "image": container["image"],
            "entrypoint": [word.replace("$", "$$") for word in container.get("command", [])],
            "command": [word.replace("$", "$$") for word in container.get("args", [])],
            "hostname": name,
            "user": f"{account['runAsUser']}:{account['runAsGroup']}",
            "group_add": [str(account["fsGroup"])],
            "read_only": walls["readOnlyRootFilesystem"],
            "cap_drop": walls["capabilities"]["drop"],
            "security_opt": guards,
            "environment": {entry["name"]: self._value(entry) for entry in container.get("env", ())},
            "volumes": mounts,
            "tmpfs": memory,
            "mem_limit": container["resources"]["limits"]["memory"].replace("Gi", "g").replace("Mi", "m"),
            # What a pause container does where processes are shared.
            "init": True,
            "restart": "on-failure" if component == "topology" else "no",
            "networks": {"bus": {"aliases": _names(name, component)}, **({"outside": {}} if outside else {})},
        }
        return service

    def _reaches_outside(self, component: str) -> bool:
        policies = [each["spec"] for each in self.objects if each["kind"] == "NetworkPolicy"]
        return any(
            policy["podSelector"]["matchLabels"].get(_COMPONENT) == component and "ipBlock" in str(policy.get("egress"))
            for policy in policies
        )

    def _value(self, entry: Object) -> str:
        if "value" in entry:
            return str(entry["value"]).replace("$", "$$")
        wanted = entry["valueFrom"]["secretKeyRef"]
        return self.secrets[wanted["name"]][wanted["key"]].decode()

    def _mounts(self, pod: str, spec: Object) -> tuple[list[str], list[str]]:
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        group = spec["securityContext"]["fsGroup"]
        mounts, memory = [], []
        for mount in spec["containers"][0]["volumeMounts"]:
            volume = volumes.get(mount["name"], {"persistentVolumeClaim": {"claimName": f"{mount['name']}-{pod}"}})
            target = mount["mountPath"]
            # The engine gives memory the mode of the image's folder below it, so that elsewhere it is a folder.
            if target == "/tmp" and volume.get("emptyDir", {}).get("medium") == "Memory":
                memory.append(f"{target}:size={volume['emptyDir']['sizeLimit'].lower()[:-1]},mode=2777,gid={group},exec")
                continue
            place = self._place(pod, volume, group) / mount.get("subPath", "")
            _folder(place, group, 0o2775 if "persistentVolumeClaim" in volume else None)
            mounts.append(f"{place}:{target}:{'ro' if mount.get('readOnly') else 'rw'}")
        # A folder within another one is mounted after it.
        return sorted(mounts, key=lambda each: each.split(":")[1]), memory

    def _place(self, pod: str, volume: Object, group: int) -> Path:
        if "secret" in volume:
            name = volume["secret"]["secretName"]
            return self._files("secrets", name, self.secrets[name], group, volume["secret"]["defaultMode"])
        if "configMap" in volume:
            name = volume["configMap"]["name"]
            return self._files("config-maps", name, self.config_maps[name], group, 0o644)
        if "projected" in volume:
            return self._files("projected", volume["name"], self._projected(volume["projected"]["sources"]), group, 0o644)
        if "persistentVolumeClaim" in volume:
            return _folder(self.folder / "claims" / volume["persistentVolumeClaim"]["claimName"], group, 0o2775)
        return _folder(self.folder / "pods" / pod / volume["name"], group, 0o2777)

    def _projected(self, sources: list[Object]) -> dict[str, bytes]:
        files: dict[str, bytes] = {}
        for source in (each["configMap"] for each in sources):
            given = self.config_maps[source["name"]]
            paths = (
                {item["key"]: item["path"] for item in source["items"]} if "items" in source else {key: key for key in given}
            )
            files.update({path: given[key] for key, path in paths.items()})
        return files

    def _files(self, kind: str, name: str, files: Mapping[str, bytes], group: int, mode: int) -> Path:
        place = self.folder / kind / name
        if not place.exists():
            place.mkdir(parents=True)
            for file, data in files.items():
                (place / file).parent.mkdir(exist_ok=True)
                (place / file).write_bytes(data)
                os.chown(place / file, 0, group)
                (place / file).chmod(mode)
        return place


def _folder(place: Path, group: int, mode: int | None) -> Path:
    """As a kubelet makes it for a pod with this ``fsGroup``."""
    if mode is not None and not place.exists():
        place.mkdir(parents=True)
        os.chown(place, 0, group)
        place.chmod(mode)
    return place


def _names(pod: str, component: str) -> list[str]:
    """What the cluster's name service would find the pod by."""
    service = pod.rpartition("-")[0]
    return [pod, f"{pod}.{service}-servers", service] if component == "nats" else [pod]


def decoded(secret: Object) -> dict[str, bytes]:
    """The files of a Secret as the cluster's API has it."""
    return {name: base64.b64decode(data) for name, data in secret["data"].items()}
