"""The configuration file of a NATS server for Gatewright, rendered from the topology and the public keys of the identities.

There is no rendering without authentication, and none in which an acknowledged message is not on the disk. It holds no secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gatewright.bus.identities import is_publisher, publisher_of
from gatewright.bus.permissions import API_PREFIX, RESIDENT_LIMITS, Access, AccountLimits, access_of
from gatewright.bus.topology import DEFAULT_POOL
from gatewright.errors import ConfigurationError

#: The account that holds the streams.
BUS_ACCOUNT = "gatewright"
#: What servers of one cluster know each other by is read from this variable of their environment.
CLUSTER_PASSWORD = "GATEWRIGHT_CLUSTER_PASSWORD"  # noqa: S105 - the name of a variable
_SERVER_PREFIX = "$JS.API"
#: The call that names in its subject which message it reads: the one family of calls that a guest may have, below a prefix.
_ONE_SUBJECT = "DIRECT.GET."
#: An answer of many messages. After the last one the server keeps the way back open for so long; without that word it
#: does until the asker gives up its inbox, which costs memory for every pull. A pull is answered within half a second.
_MANY = {"response_type": "stream", "threshold": "20s"}

_ESCAPED = re.compile(r'[\x00-\x1f\x7f"\\]')  # noqa: TID251 - linear: single characters
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


@dataclass(frozen=True, slots=True)
class Tls:
    """Files in PEM, as the server sees them. ``ca``: clients must show a certificate that it signed."""

    certificate: Path
    key: Path
    ca: Path | None = None


@dataclass(frozen=True, slots=True)
class Cluster:
    """``listen``: ``host:port`` for the other servers; ``routes``: ``nats://host:port`` of each of them."""

    name: str
    listen: str
    routes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """``listen`` and ``monitor`` are ``host:port`` (port -1: any); ``accounts`` comes from ``accounts()``."""

    store: Path
    accounts: Mapping[str, Any]
    listen: str = "127.0.0.1:4222"
    monitor: str = "127.0.0.1:8222"
    server_name: str = "gatewright"
    max_payload: int = 8 << 20
    log_file: Path | None = None
    ports_file: Path | None = None
    tls: Tls | None = None
    cluster: Cluster | None = None


def render(config: ServerConfig) -> str:
    """The file's text. ``sync_interval: always``: by default an acknowledged message may be lost for two minutes."""
    lines = [
        f"server_name: {quoted(config.server_name)}",
        f"listen: {quoted(config.listen)}",
        f"http: {quoted(config.monitor)}",
        *([f"ports_file_dir: {quoted(config.ports_file)}"] if config.ports_file else []),
        *([f"log_file: {quoted(config.log_file)}"] if config.log_file else []),
        f"max_payload: {config.max_payload}",
        # A connection that swallows everything holds open pulls: each would be given one more message, which is lost to others
        # until it is delivered again.
        'ping_interval: "2s"',
        "ping_max: 2",
        *("jetstream {", f"  store_dir: {quoted(config.store)}", "  sync_interval: always", "}"),
        *_tls_lines(config.tls),
        *_cluster_lines(config.cluster),
        f"accounts: {json.dumps(config.accounts, indent=2)}",
        "",
    ]
    return "\n".join(lines)


def quoted(value: str | Path) -> str:
    """A string of the server's configuration language, whatever stands in ``value``.

    It knows fewer escapes than JSON does (no ``\\u``), and ``\\x`` of any byte; between quotes nothing is a variable. A path
    that is no text keeps its bytes: the file is to be written with ``surrogateescape``.
    """
    return '"' + _ESCAPED.sub(lambda found: _ESCAPES.get(found[0]) or f"\\x{ord(found[0]):02x}", str(value)) + '"'


def accounts(public_keys: Mapping[str, str], pools: tuple[str, ...] = (DEFAULT_POOL,)) -> dict[str, Any]:
    """The ``accounts`` block: identity -> public nkey becomes users with exactly the permissions of the table.

    Raises ConfigurationError when a key belongs to no identity.
    """
    publishers = tuple(name for identity in public_keys if is_publisher(identity) and (name := publisher_of(identity)))
    table = [access_of(identity, pools, publishers) for identity in public_keys]
    guests = [access for access in table if access.guest]
    bus = {
        "jetstream": "enabled",
        "limits": _limits(RESIDENT_LIMITS),
        # Clients of every account write the API by this name; here it is the server's own.
        "mappings": {f"{API_PREFIX}.>": f"{_SERVER_PREFIX}.>"},
        "users": [_user(access, public_keys) for access in table if not access.guest],
        "exports": [*_exports(guests)],
        "imports": [
            {"service": {"account": guest.identity, "subject": subject}} for guest in guests for subject in guest.serve
        ],
    }
    return {BUS_ACCOUNT: bus, **{guest.identity: _guest(guest, public_keys) for guest in guests}}


def _user(access: Access, public_keys: Mapping[str, str]) -> dict[str, Any]:
    may = {"publish": {"allow": list(access.sends())}, "subscribe": {"allow": list(access.receives())}}
    return {"nkey": public_keys[access.identity], "permissions": may}


def _guest(access: Access, public_keys: Mapping[str, str]) -> dict[str, Any]:
    """An account of its own: what it may ask of the bus comes in as services, what it may hear as streams."""
    services = [{"service": {"account": BUS_ACCOUNT, "subject": subject}, **to} for subject, to in _asked(access)]
    heard = [{"stream": {"account": BUS_ACCOUNT, "subject": subject}} for subject in access.hear]
    answered = [{"service": subject, "accounts": [BUS_ACCOUNT], **_MANY} for subject in access.serve]
    return {
        "limits": _limits(access.limits),
        "users": [_user(access, public_keys)],
        "exports": answered,
        "imports": [*services, *heard],
    }


def _limits(limits: AccountLimits) -> dict[str, int]:
    return {"max_connections": limits.connections, "max_subscriptions": limits.subscriptions}


def _asked(access: Access) -> Iterable[tuple[str, dict[str, str]]]:
    """Every subject of the bus's account that a guest reaches, and under which name."""
    for subject in (*access.publish, *access.settles()):
        yield subject, {}
    for call in access.calls():
        if "*" in call or (">" in call and not call.startswith(_ONE_SUBJECT)):
            raise ConfigurationError(f"{access.identity} may not be given a whole family of calls: {call}")
        yield f"{_SERVER_PREFIX}.{call}", {"to": f"{API_PREFIX}.{call}"}


def _exports(guests: Iterable[Access]) -> Iterable[dict[str, Any]]:
    """Each subject once, with the accounts that may reach it. A pull is answered by many messages, all else by one."""
    services: dict[str, list[str]] = {}
    streams: dict[str, list[str]] = {}
    for guest in guests:
        for subject, _ in _asked(guest):
            services.setdefault(subject, []).append(guest.identity)
        for subject in guest.hear:
            streams.setdefault(subject, []).append(guest.identity)
    for subject, names in services.items():
        many = _MANY if ".CONSUMER.MSG.NEXT." in subject else {}
        yield {"service": subject, "accounts": names, **many}
    for subject, names in streams.items():
        yield {"stream": subject, "accounts": names}


def _tls_lines(tls: Tls | None) -> list[str]:
    if tls is None:
        return []
    files = [f"  cert_file: {quoted(tls.certificate)}", f"  key_file: {quoted(tls.key)}"]
    if tls.ca is not None:
        files += [f"  ca_file: {quoted(tls.ca)}", "  verify: true"]
    return ["tls {", *files, "}"]


def _cluster_lines(cluster: Cluster | None) -> list[str]:
    if cluster is None:
        return []
    routes = ", ".join(map(quoted, cluster.routes))
    return [
        "cluster {",
        f"  name: {quoted(cluster.name)}",
        f"  listen: {quoted(cluster.listen)}",
        f"  authorization {{ user: gatewright, password: ${CLUSTER_PASSWORD} }}",
        f"  routes: [{routes}]",
        "}",
    ]
