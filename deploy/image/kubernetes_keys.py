#!/opt/gatewright/bin/python
"""Create the keys of a release on Kubernetes and store them in Secrets.

There is one Secret for each identity of the bus, one for the signing key, and one for the configuration of the NATS servers.
The script never replaces a key. It updates the servers' configuration when it differs. It uses the API token of its pod.
"""

import argparse
import base64
import json
import os
import secrets
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

_ACCOUNT = Path(os.environ.get("GATEWRIGHT_SERVICE_ACCOUNT", "/var/run/secrets/kubernetes.io/serviceaccount"))
_SECONDS = 30
_MAX_REPLY = 4_000_000


class SecretStore:
    """The Secrets of the pod's namespace."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
        namespace = (_ACCOUNT / "namespace").read_text().strip()
        host = f"[{host}]" if ":" in host else host
        self._base = f"https://{host}:{port}/api/v1/namespaces/{namespace}/secrets"
        self._token = (_ACCOUNT / "token").read_text().strip()
        self._labels = dict(labels)
        # No proxy: the API is a service of the cluster.
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}),
            urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=str(_ACCOUNT / "ca.crt"))),
        )

    def read(self, name: str) -> dict[str, bytes] | None:
        """Return the files of a Secret by name, or None if it does not exist."""
        found = self._ask("GET", name)
        return None if found is None else {key: base64.b64decode(data) for key, data in (found.get("data") or {}).items()}

    def create(self, name: str, files: Mapping[str, bytes]) -> None:
        self._ask("POST", name, self._document(name, files))

    def replace(self, name: str, files: Mapping[str, bytes]) -> None:
        self._ask("PUT", name, self._document(name, files))

    def _document(self, name: str, files: Mapping[str, bytes]) -> dict[str, object]:
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "labels": self._labels},
            "type": "Opaque",
            "data": {key: base64.b64encode(data).decode() for key, data in files.items()},
        }

    def _ask(self, method: str, name: str, document: object = None) -> dict[str, dict[str, str]] | None:
        request = urllib.request.Request(  # noqa: S310 - the address is built above
            self._base if method == "POST" else f"{self._base}/{name}",
            None if document is None else json.dumps(document).encode(),
            {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json", "Accept": "application/json"},
            method=method,
        )
        try:
            with self._opener.open(request, timeout=_SECONDS) as reply:
                answer: dict[str, dict[str, str]] = json.loads(reply.read(_MAX_REPLY))
                return answer
        except urllib.error.HTTPError as error:
            if method == "GET" and error.code == 404:
                return None
            raise SystemExit(f"{method} {name}: the cluster's API answers {error.code} {error.reason}") from None
        except (OSError, ValueError) as error:
            raise SystemExit(f"{method} {name}: cannot reach the cluster's API: {error}") from None


def main(arguments: Sequence[str]) -> int:
    """Exit code 0: all Secrets exist. 1: reading, creating or storing one failed; prints the reason."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prefix", required=True, help="prefix of the names of the Secrets")
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("--pools", default="")
    parser.add_argument("--ledger-partitions", type=int, default=1)
    parser.add_argument("--publisher", action="append", default=[])
    parser.add_argument("--label", action="append", default=[], metavar="KEY=VALUE")
    given = parser.parse_args(arguments)
    from gatewright.errors import GatewrightError

    try:
        _provision(given)
    except GatewrightError as error:
        raise SystemExit(str(error)) from None
    return 0


def _provision(given: argparse.Namespace) -> None:
    store = SecretStore(dict(label.split("=", 1) for label in given.label))
    folder = Path(os.environ["GATEWRIGHT_HOME"])
    _identities(store, given.prefix, folder / "identities", given.publisher)
    _signing_key(store, given.prefix, folder)
    _servers(store, given, folder / "identities")


def _identities(store: SecretStore, prefix: str, folder: Path, publishers: Sequence[str]) -> None:
    from gatewright.bus import identities

    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    names = [*identities.STANDING, *map(identities.publisher_identity, publishers)]
    kept = {name: store.read(f"{prefix}-identity-{name}") for name in names}
    for files in kept.values():
        for file, data in (files or {}).items():
            _write(folder / Path(file).name, data)
    identities.make(folder, names)
    for name in names:
        if kept[name] is None:
            store.create(
                f"{prefix}-identity-{name}", {file: (folder / file).read_bytes() for file in (f"{name}.nk", f"{name}.pub")}
            )
            _print_line(f"created identity {name}")


def _signing_key(store: SecretStore, prefix: str, home: Path) -> None:
    if store.read(f"{prefix}-signing") is not None:
        return
    from gatewright.evidence.signing import keys

    path = keys.home_key(home)
    keys.create(path)
    store.create(f"{prefix}-signing", {file.name: file.read_bytes() for file in (path, keys.public_path(path))})
    _print_line("created the signing key")


def _servers(store: SecretStore, given: argparse.Namespace, identities: Path) -> None:
    name = f"{given.prefix}-nats"
    kept = store.read(name)
    servers: int = given.servers
    files = {f"nats-{number + 1}.conf": _configuration(given, identities, number) for number in range(servers)}
    if servers > 1:
        files["cluster-password"] = (kept or {}).get("cluster-password") or f"k{secrets.token_hex(32)}".encode()
    if kept is None:
        store.create(name, files)
        _print_line(f"created the configuration of {servers} NATS servers")
    elif kept != files:
        store.replace(name, files)
        _print_line(f"updated the configuration of {servers} NATS servers")


def _configuration(given: argparse.Namespace, identities: Path, number: int) -> bytes:
    """Render the configuration of one server. ``number`` starts at 0 and is the ordinal of its pod, which the routes name."""
    from gatewright.bus.identities import earlier_keys, public_keys
    from gatewright.bus.server_config import Cluster, ServerConfig, accounts, render

    server = f"{given.prefix}-nats"
    cluster = Cluster(
        given.prefix, "0.0.0.0:6222", tuple(f"nats://{server}-{other}.{server}-servers:6222" for other in range(given.servers))
    )
    pools = tuple(filter(None, given.pools.split(",")))
    config = ServerConfig(
        store=Path("/data"),
        accounts=accounts(public_keys(identities), pools, earlier_keys(identities), partitions=given.ledger_partitions),
        pools=pools,
        partitions=given.ledger_partitions,
        listen="0.0.0.0:4222",
        monitor="0.0.0.0:8222",
        server_name=f"{server}-{number}",
        cluster=cluster if given.servers > 1 else None,
    )
    return render(config).encode()


def _write(path: Path, data: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)


def _print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
