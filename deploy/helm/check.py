"""Check the chart without a cluster.

Helm's library lints and renders the chart. The objects must match the API of several versions of Kubernetes and the promises
of docs/kubernetes.md. ``make chart`` runs this script in its own environment. It prints each fault and exits with 1 on a
fault. With ``--render`` it reads values from standard input, prints the rendered objects as JSON, and checks nothing.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import helm_python
import kubernetes_validate
import yaml
from operations import (
    SCHEDULING,
    faults_of_changes,
    faults_of_notes,
    faults_of_operations,
    faults_of_scheduling,
    pod_templates,
    selects,
)

CHART = Path(__file__).parent / "gatewright"
VERSIONS = ("1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36", "1.37")
#: Custom kinds, which the schemas of Kubernetes do not describe.
_FOREIGN = frozenset({"ScaledObject", "PodMonitor", "PrometheusRule"})
_SANDBOXED = frozenset({"worker", "testrunner", "puller"})
#: The identities of the live page: it reads, sends decisions and submits.
_CONSOLE_IDENTITIES = ("watcher", "observer", "approver", "publisher")
#: Pods without exactly one identity: retention writes and deletes ledger entries, forge reads and submits, branches has none.
_NUMBERS_OF_IDENTITIES: Mapping[str, int] = {"retention": 2, "forge": 2, "branches": 0}
#: The port of webhooks.
_WEBHOOKS = 8792

#: An egress rule of workers to a search service in the cluster.
SEARCH: Mapping[str, Any] = {
    "to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "search"}}}],
    "ports": [{"port": 8080, "protocol": "TCP"}],
}

#: Values that must render, by their purpose.
CASES: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "one server": {"nats": {"replicas": 1}},
    "stream sizes": {"nats": {"streams": {"bytes": {"RESULTS": "2GiB", "INTAKE_ci": "64MiB"}, "days": {"DEAD": 90}}}},
    "an existing server": {"nats": {"enabled": False, "url": "tls://nats.example:4222", "caSecret": "nats-ca"}},
    "existing identities": {"identities": {"create": False}},
    "a server in operator mode": {
        "nats": {"enabled": False, "url": "nats://nats.example:4222"},
        "identities": {"create": False, "operatorMode": True},
    },
    "a ledger in several streams": {"nats": {"streams": {"ledgerPartitions": 4}}},
    "publishers": {"identities": {"publishers": ["ci", "bot"]}},
    "pools": {
        "roles": {
            "worker": {
                "pools": {"gpu": {"replicas": 1, "nodeSelector": {"gpu": "yes"}, "concurrency": 2}, "default": {"replicas": 3}}
            },
        }
    },
    "two gatekeepers": {
        "bundles": {"accessMode": "ReadWriteMany"},
        "roles": {"gatekeeper": {"pools": {"default": {"replicas": 2}}}},
    },
    "two gatekeepers and a store": {
        "bundles": {"store": "s3://evidence/team"},
        "policies": {"configMap": "policies", "organisation": {"configMap": "rules", "files": ["tested.cel"]}},
        "roles": {
            "gatekeeper": {
                "pools": {"default": {"replicas": 2}},
                "extraEnv": [{"name": "STORE_KEY", "valueFrom": {"secretKeyRef": {"name": "store", "key": "secret"}}}],
            }
        },
    },
    "KEDA": {
        "keda": {"enabled": True, "prometheus": "http://prometheus.monitoring:9090"},
        "roles": {"worker": {"pools": {"gpu": {"replicas": 1}, "default": {"replicas": 3}}}},
    },
    "plain scaling": {"autoscaling": {"enabled": True}},
    "one policy replaces that of the image": {"policies": {"configMap": "policies"}},
    "policies, prompts, keys of models": {
        "policies": {"configMap": "policies", "organisation": {"configMap": "rules", "files": ["tested.cel"]}},
        "prompts": {"configMap": "prompts"},
        "roles": {
            "pm": {
                "outside": True,
                "extraEnv": [{"name": "MODEL_KEY", "valueFrom": {"secretKeyRef": {"name": "models", "key": "key"}}}],
            }
        },
    },
    "a release of another name, by digest": {"image": {"repository": "team/gatewright", "digest": "sha256:" + "0" * 64}},
    "the live page": {"console": {"enabled": True, "hostName": "board.example", "tokens": {"secret": "board"}}},
    "the live page with a provider, through an ingress": {
        "nats": {"enabled": False, "url": "tls://nats.example:4222", "caSecret": "nats-ca"},
        "identities": {"publishers": ["people"]},
        "console": {
            "enabled": True,
            "hostName": "board.example",
            "oidc": {"secret": "board-provider"},
            "publisher": "people",
        },
        "networkPolicies": {"console": [{"namespaceSelector": {"matchLabels": {"name": "ingress"}}}]},
    },
    "a read-only live page": {
        "console": {
            "enabled": True,
            "hostName": "board.example",
            "tokens": {"secret": "board", "roles": ["viewer"]},
            "readOnly": True,
        }
    },
    "polled forges": {
        "identities": {"publishers": ["forge"]},
        "policies": {"configMap": "policies"},
        "forge": {
            "enabled": True,
            "extraEnv": [{"name": "FORGE_TOKEN", "valueFrom": {"secretKeyRef": {"name": "forges", "key": "token"}}}],
        },
        "networkPolicies": {"monitoring": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]},
    },
    "forges with webhooks and another publisher": {
        "nats": {"enabled": False, "url": "tls://nats.example:4222", "caSecret": "nats-ca"},
        "identities": {"create": False, "operatorMode": True, "publishers": ["requests"]},
        "policies": {"configMap": "policies"},
        "forge": {
            "enabled": True,
            "publisher": "requests",
            "webhooks": True,
            "extraVolumes": [{"name": "credentials", "secret": {"secretName": "forges", "defaultMode": 0o440}}],
            "extraVolumeMounts": [{"name": "credentials", "mountPath": "/run/credentials", "readOnly": True}],
        },
        "networkPolicies": {"forge": [{"namespaceSelector": {"matchLabels": {"name": "ingress"}}}]},
    },
    "environments of public registries": {"puller": {"enabled": True}},
    "environments of own registries": {
        "nats": {"enabled": False, "url": "tls://nats.example:4222", "caSecret": "nats-ca"},
        "puller": {
            "enabled": True,
            "replicas": 2,
            "egress": {
                "sources": [
                    {
                        "name": "own",
                        "hosts": ["pypi.example", "npm.example:8443"],
                        "private": True,
                        "credential": "REGISTRY_KEY",
                    },
                    {"name": "mirror", "hosts": ["192.0.2.7:8080"], "private": True, "http": True},
                    {"name": "go", "hosts": ["proxy.golang.org"], "ports": [443, 8443]},
                ]
            },
            "environments": {"existingClaim": "shared"},
            "extraEnv": [{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "registry", "key": "key"}}}],
        },
    },
    "a search service in the cluster": {"policies": {"configMap": "policies"}, "research": {"egress": [SEARCH]}},
    "workers that reach a search service and a server, and nothing else": {
        "nats": {"enabled": False, "url": "tls://nats.example:4222", "caSecret": "nats-ca"},
        "policies": {"configMap": "policies"},
        "roles": {"worker": {"outside": False}},
        "research": {"egress": [SEARCH]},
    },
    "a test that lands": {"test": {"repository": "https://git.example/team/project.git", "command": "python -m unittest"}},
    "expiry": {
        "retention": {"enabled": True, "hours": 6, "extraEnv": [{"name": "STORE_KEY", "value": "x"}]},
        "bundles": {"store": "s3://evidence/team"},
        "nats": {"enabled": False, "url": "tls://nats.example:4222", "caSecret": "nats-ca"},
        "identities": {"create": False, "operatorMode": True},
        "policies": {"configMap": "policies", "organisation": {"configMap": "rules", "files": ["tested.cel"]}},
    },
    "expiry of bundles on a claim": {
        "retention": {"enabled": True},
        "bundles": {"accessMode": "ReadWriteMany"},
        "policies": {"configMap": "policies", "organisation": {"configMap": "rules", "files": ["tested.cel"]}},
    },
    "branches and a store": {
        "retention": {
            "enabled": True,
            "branches": {
                "enabled": True,
                "repositories": ["https://git.example/team/project.git", "git@git.example:team/other.git"],
                "egress": [{"to": [{"ipBlock": {"cidr": "192.0.2.7/32"}}], "ports": [{"port": 443, "protocol": "TCP"}]}],
                "extraEnv": [{"name": "GIT_PUSH_TOKEN", "valueFrom": {"secretKeyRef": {"name": "git-tidy", "key": "token"}}}],
            },
        },
        "bundles": {"store": "s3://evidence/team"},
        "policies": {"configMap": "policies", "organisation": {"configMap": "rules", "files": ["tested.cel"]}},
        "networkPolicies": {"monitoring": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]},
    },
    "branches alone, with bundles on a claim": {
        "retention": {"branches": {"enabled": True, "repositories": ["ssh://git@git.example/team/project.git"]}},
        "bundles": {"accessMode": "ReadWriteMany"},
        "policies": {"configMap": "policies", "organisation": {"configMap": "rules", "files": ["tested.cel"]}},
    },
    "scheduling of all pods": {
        "scheduling": SCHEDULING,
        "identities": {"publishers": ["forge"]},
        "forge": {"enabled": True, "webhooks": True},
        "puller": {"enabled": True},
        "console": {"enabled": True, "hostName": "board.example", "tokens": {"secret": "board"}},
        "retention": {
            "enabled": True,
            "branches": {"enabled": True, "repositories": ["https://git.example/team/project.git"]},
        },
        "bundles": {"store": "s3://evidence/team"},
        "policies": {"configMap": "policies", "organisation": {"configMap": "rules", "files": ["tested.cel"]}},
    },
    "an account with access to the store, and another DNS": {
        "bundles": {"store": "s3://evidence/team"},
        "serviceAccounts": {"gatekeeper": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/evidence"}}},
        "networkPolicies": {
            "dns": [
                {
                    "to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "openshift-dns"}}}],
                    "ports": [{"port": 5353, "protocol": "UDP"}, {"port": 5353, "protocol": "TCP"}],
                }
            ]
        },
    },
    "the Prometheus operator": {
        "monitoring": {
            "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
            "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
        }
    },
    "without network policies": {"networkPolicies": {"enabled": False}, "podDisruptionBudgets": {"enabled": False}},
}

#: Values that the chart must refuse.
REFUSED: Mapping[str, Mapping[str, Any]] = {
    "a role that does not exist": {"roles": {"wroker": {"pools": {"default": {}}}}},
    "two servers": {"nats": {"replicas": 2}},
    "a size without its unit": {"nats": {"streams": {"bytes": {"RESULTS": "2"}}}},
    "a ledger with expiry": {"nats": {"streams": {"days": {"RUNS": 90}}}},
    "operator mode with the keys job": {"identities": {"operatorMode": True}},
    "a URL with a password": {"nats": {"enabled": False, "url": "nats://me:secret@nats.example:4222"}},
    "no URL": {"nats": {"enabled": False}},
    "a publisher called operator": {"identities": {"publishers": ["operator"]}},
    "a digest that is a tag": {"image": {"repository": "gatewright", "digest": "latest"}},
    "both scalers": {"keda": {"enabled": True, "prometheus": "http://prometheus"}, "autoscaling": {"enabled": True}},
    "KEDA without Prometheus": {"keda": {"enabled": True}},
    "a pool of gatekeepers": {"roles": {"gatekeeper": {"pools": {"other": {"replicas": 1}}}}},
    "a test without a command": {"test": {"repository": "https://git.example/team/project.git"}},
    "rules of the organisation without a list of files": {
        "policies": {"configMap": "policies", "organisation": {"configMap": "rules"}},
    },
    "expiry without a policy": {"retention": {"enabled": True}, "bundles": {"store": "s3://evidence"}},
    "expiry without access to holds": {
        "retention": {"enabled": True},
        "policies": {"configMap": "policies", "organisation": {"configMap": "rules", "files": ["tested.cel"]}},
    },
    "branches without a repository": {
        "retention": {"branches": {"enabled": True}},
        "bundles": {"store": "s3://evidence"},
        "policies": {"configMap": "policies", "organisation": {"configMap": "rules", "files": ["tested.cel"]}},
    },
    "branches of a repository with a password": {
        "retention": {"branches": {"enabled": True, "repositories": ["https://me:secret@git.example/project.git"]}},
        "bundles": {"store": "s3://evidence"},
        "policies": {"configMap": "policies", "organisation": {"configMap": "rules", "files": ["tested.cel"]}},
    },
    "a constraint without a topology": {"scheduling": {"topologySpreadConstraints": [{"maxSkew": 1}]}},
    "an account that does not exist": {"serviceAccounts": {"worker": {"annotations": {"a": "b"}}}},
    "memory in an unknown unit": {"nats": {"resources": {"limits": {"memory": "2GB"}}}},
    "a store with a password": {"bundles": {"store": "s3://key:secret@evidence"}},
    "a live page without a sign-in": {"console": {"enabled": True, "hostName": "board.example"}},
    "a live page without a host name": {"console": {"enabled": True, "tokens": {"secret": "board"}}},
    "a live page with an unknown role": {
        "console": {"enabled": True, "hostName": "board.example", "tokens": {"secret": "board", "roles": ["admin"]}}
    },
    "a signing agent on another host": {
        "console": {
            "enabled": True,
            "hostName": "board.example",
            "tokens": {"secret": "board"},
            "signAgent": "http://evil.example:8791",
        }
    },
    "forges without a policy": {"identities": {"publishers": ["forge"]}, "forge": {"enabled": True}},
    "forges with an unknown publisher": {"policies": {"configMap": "policies"}, "forge": {"enabled": True}},
    "sources of webhooks without a receiver": {
        "identities": {"publishers": ["forge"]},
        "policies": {"configMap": "policies"},
        "forge": {"enabled": True},
        "networkPolicies": {"forge": [{"namespaceSelector": {"matchLabels": {"name": "ingress"}}}]},
    },
    "a search service without a policy": {"research": {"egress": [SEARCH]}},
    "a search service without network policies": {
        "policies": {"configMap": "policies"},
        "networkPolicies": {"enabled": False},
        "research": {"egress": [SEARCH]},
    },
    "a search service at any address": {
        "policies": {"configMap": "policies"},
        "research": {"egress": [{"ports": SEARCH["ports"]}]},
    },
    "a registry with a path": {
        "puller": {"enabled": True, "egress": {"sources": [{"name": "a", "hosts": ["a.example/simple"]}]}}
    },
    "a registry without a name": {"puller": {"egress": {"sources": [{"hosts": ["a.example"]}]}}},
    "an unknown value": {"networkPolicy": {"enabled": True}},
}


def rendered(values: Mapping[str, Any], release: str = "gatewright") -> list[dict[str, Any]]:
    """Return all objects. Raises HelmError for values that the chart refuses."""
    return [
        document
        for name, text in sorted(_files(values, release).items())
        if not name.endswith(("NOTES.txt", ".tpl"))
        for document in yaml.safe_load_all(text)
        if document
    ]


def rendered_notes(values: Mapping[str, Any]) -> str:
    """Return the notes that an installation prints."""
    return next(text for name, text in _files(values, "gatewright").items() if name.endswith("NOTES.txt"))


def _files(values: Mapping[str, Any], release: str) -> dict[str, str]:
    with helm_python.Chart.load(str(CHART)) as chart:
        files: dict[str, str] = chart.render(dict(values), name=release, namespace="delivery")
        return files


def faults_of_pod_security(documents: list[dict[str, Any]]) -> Iterator[str]:
    """Check the security settings of every pod that docs/kubernetes.md lists."""
    for component, template in pod_templates(documents):
        pod = template["spec"]
        if pod["automountServiceAccountToken"] is not (component == "keys"):
            yield f"{component}: has an API token although it must not, or lacks one"
        if pod["securityContext"]["runAsUser"] == 0 or not pod["securityContext"]["runAsNonRoot"]:
            yield f"{component}: may run as root"
        if pod.get("hostNetwork") or pod.get("hostPID") or any("hostPath" in volume for volume in pod["volumes"]):
            yield f"{component}: uses a namespace or a path of its node"
        yield from faults_of_secrets(component, pod["volumes"])
        for container in pod["containers"]:
            security = container["securityContext"]
            if (
                security["allowPrivilegeEscalation"]
                or not security["readOnlyRootFilesystem"]
                or security["capabilities"] != {"drop": ["ALL"]}
            ):
                yield f"{component}: insecure security context: {security}"
            if ("procMount" in security) is not (component in _SANDBOXED):
                yield f"{component}: has procMount although only sandboxed roles need it, or lacks it"
            if "memory" not in container["resources"]["limits"]:
                yield f"{component}: has no memory limit"
            if any("value" in entry and "SEED" in entry["value"] for entry in container.get("env", ())):
                yield f"{component}: an environment variable contains a seed"


def faults_of_secrets(component: str, volumes: list[dict[str, Any]]) -> Iterator[str]:
    """Check the identities of a pod, and that only the gatekeeper has the signing key.

    A pod has one identity, except those of ``_NUMBERS_OF_IDENTITIES`` and the live page (``_CONSOLE_IDENTITIES``). The keys
    job and the NATS servers are not checked.
    """
    secrets = [volume["secret"] for volume in volumes if "secret" in volume]
    parts = [source for volume in volumes for source in volume.get("projected", {}).get("sources", ())]
    names = {secret["secretName"] for secret in secrets} | {part["secret"]["name"] for part in parts if "secret" in part}
    identities = {name for name in names if "-identity-" in name}
    if component == "console":
        kinds = {name.partition("-identity-")[2].partition("-")[0] for name in identities}
        right = {"watcher", "observer"} <= kinds <= set(_CONSOLE_IDENTITIES)
    else:
        right = component in {"keys", "nats"} or len(identities) == _NUMBERS_OF_IDENTITIES.get(component, 1)
    if not right:
        yield f"{component}: has the wrong identities: {sorted(identities)}"
    private = [each for each in secrets if each["secretName"].endswith("-signing") and "items" not in each]
    if bool(private) is not (component == "gatekeeper"):
        yield f"{component}: has the signing key although only the gatekeeper needs it, or lacks it"


def faults_of_names(documents: list[dict[str, Any]]) -> Iterator[str]:
    """Check names, labels and selectors: names are unique, selectors match pods, and the service account of each pod exists."""
    seen: set[tuple[str, str]] = set()
    for each in documents:
        name = (each["kind"], each["metadata"]["name"])
        if name in seen:
            yield f"{name}: two objects have this name"
        seen.add(name)
        labels = each["metadata"]["labels"]
        for label in ("name", "instance", "version", "managed-by", "part-of"):
            if f"app.kubernetes.io/{label}" not in labels:
                yield f"{name}: lacks the label {label}"
        if each["kind"] in {"Deployment", "StatefulSet"}:
            wanted, given = each["spec"]["selector"]["matchLabels"], each["spec"]["template"]["metadata"]["labels"]
            if not wanted.items() <= given.items():
                yield f"{name}: its selector does not match its pods"
        if each["kind"] in {"PodDisruptionBudget", "Service"}:
            selector = each["spec"]["selector"].get("matchLabels", each["spec"]["selector"])
            if not any(selector.items() <= pod["metadata"]["labels"].items() for _, pod in pod_templates(documents)):
                yield f"{name}: selects no pod"
    for component, template in pod_templates(documents):
        pod = template["spec"]
        if ("ServiceAccount", pod["serviceAccountName"]) not in seen:
            yield f"{component}: the account {pod['serviceAccountName']} does not exist"


def faults_of_scaling(documents: list[dict[str, Any]]) -> Iterator[str]:
    """Check that each scaler targets a Deployment without ``replicas``, and that none targets the gatekeeper."""
    deployments = {each["metadata"]["name"]: each for each in documents if each["kind"] == "Deployment"}
    for each in documents:
        if each["kind"] in {"ScaledObject", "HorizontalPodAutoscaler"}:
            target = deployments.get(each["spec"]["scaleTargetRef"]["name"])
            if target is None or "replicas" in target["spec"]:
                yield f"{each['metadata']['name']}: targets no Deployment, or one with replicas"
            elif target["metadata"]["labels"]["app.kubernetes.io/component"] == "gatekeeper":
                yield f"{each['metadata']['name']}: targets the gatekeeper"
            elif each["kind"] == "ScaledObject":
                labels = target["spec"]["template"]["metadata"]["labels"]
                own = f'{{queue="{labels["app.kubernetes.io/component"]}",pool="{labels["gatewright/pool"]}"}}'
                if own not in each["spec"]["triggers"][0]["metadata"]["query"]:
                    yield f"{each['metadata']['name']}: its query is not restricted to the queue of its pool"


def faults_of_networks(documents: list[dict[str, Any]]) -> Iterator[str]:
    """Check that the branches pod cannot reach the bus or write bundles."""
    for component, template in pod_templates(documents):
        pod = template["spec"]
        if component != "branches":
            continue
        if any("NATS" in entry["name"] for entry in pod["containers"][0]["env"]):
            yield "branches: an environment variable configures the bus"
        if any(mount["name"] == "bundles" and not mount.get("readOnly") for mount in pod["containers"][0]["volumeMounts"]):
            yield "branches: can write bundles"
        policies = [each["spec"] for each in documents if each["kind"] == "NetworkPolicy"]
        own = [policy for policy in policies if selects(policy["podSelector"], template["metadata"]["labels"])]
        ports = {port["port"] for policy in own for rule in policy.get("egress", ()) for port in rule["ports"]}
        if len(own) != 1 or 4222 in ports:
            yield f"branches: {len(own)} network policies allow egress to {sorted(ports)}"


def faults_of_forge(documents: list[dict[str, Any]]) -> Iterator[str]:
    """Check the forge pod: identities to read and submit, egress to forges, ingress for webhooks and monitoring only."""
    for component, template in pod_templates(documents):
        if component != "forge":
            continue
        pod = template["spec"]
        names = (volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume)
        kinds = {name.partition("-identity-")[2].partition("-")[0] for name in names if "-identity-" in name}
        if kinds != {"watcher", "publisher"}:
            yield f"forge: has the wrong identities: {sorted(kinds)}"
        container = pod["containers"][0]
        receives = any(word.startswith("--http=") for word in container["args"])
        own = [each for each in documents if each["metadata"]["name"].endswith("-forge")]
        if receives is not any(each["kind"] == "Service" for each in own):
            yield "forge: has a Service without webhooks, or webhooks without a Service"
        policies = [each["spec"] for each in documents if each["kind"] == "NetworkPolicy"]
        found = [policy for policy in policies if selects(policy["podSelector"], template["metadata"]["labels"])]
        into = {port["port"] for policy in found for rule in policy.get("ingress", ()) for port in rule["ports"]}
        out = {port["port"] for policy in found for rule in policy.get("egress", ()) for port in rule["ports"]}
        if not into <= ({9464, _WEBHOOKS} if receives else {9464}) or (found and not {443, 4222} <= out):
            yield f"forge: wrong network policies: ingress {sorted(into)}, egress {sorted(out)}"


def faults_of_puller(documents: list[dict[str, Any]]) -> Iterator[str]:
    """Check the environments: only the puller writes them, and its egress has the ports of its sources and of the bus."""
    pods = dict(pod_templates(documents))
    if "puller" not in pods:
        return
    for component, template in pods.items():
        container = template["spec"]["containers"][0]
        mounts = [each for each in container["volumeMounts"] if each["name"] == "environments"]
        if bool(mounts) is not (component in _SANDBOXED):
            yield f"{component}: mounts the environments although it runs no commands, or lacks them"
        if any(bool(mount.get("readOnly")) is (component == "puller") for mount in mounts):
            yield f"{component}: can write environments, or the puller cannot"
        given = {entry["name"]: entry.get("value") for entry in container.get("env", ())}
        listed = f"{mounts[0]['mountPath']}/environments/*" if mounts and component != "puller" else None
        if given.get("GATEWRIGHT_ENVIRONMENTS") != listed:
            yield f"{component}: does not offer the mounted environments, or offers none that it has"
    policies = [each["spec"] for each in documents if each["kind"] == "NetworkPolicy"]
    own = [policy for policy in policies if selects(policy["podSelector"], pods["puller"]["metadata"]["labels"])]
    out = {port["port"] for policy in own for rule in policy.get("egress", ()) for port in rule["ports"]}
    (egress,) = (json.loads(each["data"]["egress.json"]) for each in documents if "egress.json" in each.get("data", {}))
    wanted = {4222, 53}
    for source in egress.get("sources", [{"hosts": [""]}]):
        for host in source["hosts"]:
            port = host.partition(":")[2]
            wanted |= {int(port)} if port else set(source.get("ports", [443]))
    if own and (out != wanted or any(policy.get("ingress") for policy in own)):
        yield f"puller: egress to {sorted(out)}, and its sources need {sorted(wanted)}"


def faults_of_research(documents: list[dict[str, Any]], egress: list[dict[str, Any]]) -> Iterator[str]:
    """Check that workers, and no other pods, have the egress rules of search services."""
    policies = [each["spec"] for each in documents if each["kind"] == "NetworkPolicy"]
    for component, template in pod_templates(documents):
        own = [policy for policy in policies if selects(policy["podSelector"], template["metadata"]["labels"])]
        rules = [rule for policy in own for rule in policy.get("egress", ())]
        reached = [rule for rule in egress if rule in rules]
        if reached != (egress if component == "worker" else []):
            yield f"{component}: egress to {len(reached)} of {len(egress)} search services"


def faults_of_versions(documents: list[dict[str, Any]], validated: set[str]) -> Iterator[str]:
    """Validate objects against each version of Kubernetes; skip and extend ``validated``, the validated objects as JSON."""
    for each in documents:
        text = json.dumps(each, sort_keys=True)
        if each["kind"] in _FOREIGN or text in validated:
            continue
        validated.add(text)
        for version in VERSIONS:
            try:
                kubernetes_validate.validate(each, version, strict=True)
            except (kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError) as error:
                yield f"Kubernetes {version}: {each['kind']} {each['metadata']['name']}: {str(error).splitlines()[0]}"


def main() -> int:
    faults = [f"lint: {each}" for each in helm_python.lint(str(CHART), strict=True)["messages"] if each["severity"] >= 2]
    validated: set[str] = set()
    for case, values in CASES.items():
        documents = rendered(values, "delivery" if "another name" in case else "gatewright")
        versions = partial(faults_of_versions, validated=validated)
        checks = (
            *(faults_of_pod_security, faults_of_names, faults_of_scaling, faults_of_networks, faults_of_forge),
            *(faults_of_puller, faults_of_operations, versions),
        )
        faults += [f"{case}: {fault}" for check in checks for fault in check(documents)]
        faults += [f"{case}: the notes: {fault}" for fault in faults_of_notes(rendered_notes(values))]
        if "scheduling" in values:
            faults += [f"{case}: {fault}" for fault in faults_of_scheduling(documents)]
        faults += [f"{case}: {fault}" for fault in faults_of_research(documents, values.get("research", {}).get("egress", []))]
        sys.stdout.write(f"{case}: {len(documents)} objects\n")
    given = dict(CASES["expiry"])
    changed = given | {"identities": {"create": False, "operatorMode": True, "publishers": ["ci"]}}
    later = given | {"policies": given["policies"] | {"version": "2"}}
    faults += faults_of_changes(*(rendered(values) for values in (given, changed, later)))
    for case, values in REFUSED.items():
        try:
            rendered(values)
        except helm_python.HelmError:
            continue
        faults.append(f"{case}: the chart accepts these values")
    sys.stdout.writelines(f"FAULT {fault}\n" for fault in faults)
    sys.stdout.write(
        f"{len(CASES)} cases on Kubernetes {VERSIONS[0]} to {VERSIONS[-1]}, {len(REFUSED)} refusals, {len(faults)} faults\n"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--render"]:
        json.dump(rendered(json.load(sys.stdin)), sys.stdout)
    else:
        raise SystemExit(main())
