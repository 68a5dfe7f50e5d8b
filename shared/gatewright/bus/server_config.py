"""The configuration file of a NATS server for Gatewright, rendered from the topology and the public keys of the identities.

There is no rendering without authentication, and none in which an acknowledged message is not on the disk. It holds no secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gatewright.bus.identities import is_publisher, publisher_of
from gatewright.bus.identity_limits import IdentityLimits
from gatewright.bus.permissions import API_PREFIX, ASK_PROCESSES, RESIDENT_LIMITS, Access, AccountLimits, access_of
from gatewright.bus.subjects import matches
from gatewright.bus.topology import DEFAULT_POOL
from gatewright.errors import ConfigurationError

#: The account that holds the streams.
BUS_ACCOUNT = "gatewright"
#: The environment variable with the password that servers of a cluster share.
CLUSTER_PASSWORD = "GATEWRIGHT_CLUSTER_PASSWORD"  # noqa: S105 - the name of a variable
_SERVER_PREFIX = "$JS.API"
#: The lines from which on a rendered file is about identities.
_POOLS = "# pools: "
#: Prefix of the line that records the number of partitions, if there are several.
_PARTITIONS = "# ledger partitions: "
_ACCOUNTS = "accounts: "
#: The call that names in its subject which message it reads: the one family of calls that a guest may have, below a prefix.
_ONE_SUBJECT = "DIRECT.GET."
#: An answer of many messages. After the last one the server keeps the reply path open for this time. Without the setting it
#: does so until the requester drops its inbox, which costs memory for every pull. A pull is answered within half a second.
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
    """A server's configuration. ``listen`` and ``monitor`` are ``host:port`` (port -1: any); ``accounts`` comes from
    ``accounts()``."""

    store: Path
    accounts: Mapping[str, Any]
    pools: tuple[str, ...] = (DEFAULT_POOL,)
    #: The number of streams of the ledger.
    partitions: int = 1
    listen: str = "127.0.0.1:4222"
    monitor: str = "127.0.0.1:8222"
    server_name: str = "gatewright"
    max_payload: int = 8 << 20
    log_file: Path | None = None
    ports_file: Path | None = None
    tls: Tls | None = None
    cluster: Cluster | None = None
    #: Replaces ``accounts`` for a server in operator mode.
    trust: tuple[str, ...] = ()


def render(config: ServerConfig) -> str:
    """The file's text. ``sync_interval: always``: by default an acknowledged message may be lost for two minutes."""
    lines = [
        f"server_name: {quote_string(config.server_name)}",
        f"listen: {quote_string(config.listen)}",
        f"http: {quote_string(config.monitor)}",
        *([f"ports_file_dir: {quote_string(config.ports_file)}"] if config.ports_file else []),
        *([f"log_file: {quote_string(config.log_file)}"] if config.log_file else []),
        f"max_payload: {config.max_payload}",
        # A connection that accepts everything and answers nothing holds open pulls: each would receive one more message,
        # unavailable to others until redelivery.
        'ping_interval: "2s"',
        "ping_max: 2",
        *("jetstream {", f"  store_dir: {quote_string(config.store)}", "  sync_interval: always", "}"),
        *_tls_lines(config.tls),
        *_cluster_lines(config.cluster),
        *(config.trust or (accounts_text(config.accounts, config.pools, config.partitions),)),
    ]
    return "\n".join(lines)


def accounts_text(table: Mapping[str, Any], pools: tuple[str, ...] = (DEFAULT_POOL,), partitions: int = 1) -> str:
    """The block as a server reads it, which one that is configured otherwise can include, and the pools that it is for."""
    parts = f"{_PARTITIONS}{partitions}\n" if partitions > 1 else ""
    return f"{_POOLS}{' '.join(pools)}\n{parts}{_ACCOUNTS}{json.dumps(table, indent=2)}\n"


def with_identities(
    text: str, keys: Mapping[str, str], earlier: Mapping[str, str], limits: Mapping[str, IdentityLimits] | None = None
) -> str:
    """A file that was rendered before, with the accounts of these identities; all else, pools and partitions, stays.

    Raises ConfigurationError (``server_file_strange``) when it holds no such block.
    """
    before, marker, rest = text.partition(_POOLS)
    named, _, block = rest.partition(f"\n{_ACCOUNTS}")
    try:
        _, end = json.JSONDecoder().raw_decode(block)
    except ValueError:
        end = 0
    if not marker or not end:
        raise ConfigurationError(
            "the file was not rendered by `gatewright topology` of this version: render it anew, once",
            code="server_file_strange",
        )
    first, _, second = named.partition(f"\n{_PARTITIONS}")
    pools, partitions = tuple(first.split()), int(second or 1)
    table = accounts(keys, pools, earlier, limits, partitions)
    return before + accounts_text(table, pools, partitions) + block[end:].removeprefix("\n")


def quote_string(value: str | Path) -> str:
    """Return ``value`` quoted for the server's configuration language.

    It has fewer escapes than JSON (no ``\\u``), and ``\\x`` of any byte; in quotes there are no variables. A path
    that is not UTF-8 keeps its bytes: write the file with ``surrogateescape``.
    """
    return '"' + _ESCAPED.sub(lambda found: _ESCAPES.get(found[0]) or f"\\x{ord(found[0]):02x}", str(value)) + '"'


def accounts(
    public_keys: Mapping[str, str],
    pools: tuple[str, ...] = (DEFAULT_POOL,),
    earlier: Mapping[str, str] | None = None,
    limits: Mapping[str, IdentityLimits] | None = None,
    partitions: int = 1,
) -> dict[str, Any]:
    """Return the ``accounts`` block: users with the exact permissions of the table, from identity -> public nkey.

    Args:
        earlier: the previous, still accepted keys of identities whose key is being replaced.
        limits: limits that an operator changed.

    Raises:
        ConfigurationError: a key belongs to no known identity.
    """
    publishers = tuple(name for identity in public_keys if is_publisher(identity) and (name := publisher_of(identity)))
    found = (access_of(identity, pools, publishers, partitions) for identity in public_keys)
    changed = limits or {}
    table = [replace(each, limits=changed.get(each.identity, IdentityLimits()).over(each.limits)) for each in found]
    guests = [access for access in table if access.guest]
    keys = {identity: (key, *filter(None, [(earlier or {}).get(identity)])) for identity, key in public_keys.items()}
    bus = {
        "jetstream": "enabled",
        "limits": _limits(RESIDENT_LIMITS),
        # Clients of every account use this prefix for the API; in this account it maps to the server's own.
        "mappings": {f"{API_PREFIX}.>": f"{_SERVER_PREFIX}.>"},
        "users": [user for access in table if not access.guest for user in _users(access, keys)],
        "exports": [*_exports(guests)],
        "imports": [
            {"service": {"account": guest.identity, "subject": subject}} for guest in guests for subject in guest.serve
        ],
    }
    return {BUS_ACCOUNT: bus, **{guest.identity: _guest(guest, guests, keys) for guest in guests}}


def _users(access: Access, keys: Mapping[str, tuple[str, ...]]) -> list[dict[str, Any]]:
    may = {"publish": {"allow": list(access.sends())}, "subscribe": {"allow": list(access.receives())}}
    return [{"nkey": key, "permissions": may} for key in keys[access.identity]]


def _guest(access: Access, guests: Iterable[Access], keys: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """Return a guest's account: requests to the bus are imported as services, and received subjects as streams.

    Messages between guests pass directly from account to account.
    """
    passed = {
        subject: [other.identity for other in guests if subject in _between(access, other)]
        for subject in _guest_imports(access, guests)
    }
    services = [{"service": {"account": BUS_ACCOUNT, "subject": subject}, **to} for subject, to in _guest_exports(access)]
    heard = [{"stream": {"account": BUS_ACCOUNT, "subject": subject}} for subject in access.hear]
    answered = [{"service": subject, "accounts": [BUS_ACCOUNT], **_MANY} for subject in access.serve]
    return {
        "limits": _limits(access.limits),
        "users": _users(access, keys),
        "exports": [*answered, *({"stream": subject, "accounts": names} for subject, names in passed.items())],
        "imports": [*services, *heard, *_from_guests(access, guests)],
    }


def _guest_imports(access: Access, guests: Iterable[Access]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(subject for other in guests for subject in _between(access, other)))


def _from_guests(access: Access, guests: Iterable[Access]) -> Iterable[dict[str, Any]]:
    for other in guests:
        for subject in _between(other, access):
            yield {"stream": {"account": other.identity, "subject": subject}}


def _between(sender: Access, receiver: Access) -> tuple[str, ...]:
    """Return the subjects that one guest sends to another: of a pattern and a matching subject, the subject."""
    pairs = ((sent, heard) for sent in sender.peer_sends for heard in receiver.peer_receives)
    both = (heard if matches(sent, heard) else sent if matches(heard, sent) else "" for sent, heard in pairs)
    return tuple(subject for subject in both if subject)


def _limits(limits: AccountLimits) -> dict[str, int]:
    bounds = {"max_connections": limits.connections, "max_subscriptions": limits.subscriptions}
    return bounds | ({"max_payload": limits.payload} if limits.payload else {})


def _guest_exports(access: Access) -> Iterable[tuple[str, dict[str, str]]]:
    """Yield every subject of the bus's account that a guest reaches, with the name it uses."""
    for subject in (*access.publish, *access.settles()):
        yield subject, {}
    for call in access.calls():
        if "*" in call or (">" in call and not call.startswith(_ONE_SUBJECT)):
            raise ConfigurationError(f"{access.identity} may not be given a whole family of calls: {call}")
        yield f"{_SERVER_PREFIX}.{call}", {"to": f"{API_PREFIX}.{call}"}


def _exports(guests: Iterable[Access]) -> Iterable[dict[str, Any]]:
    """Yield each subject once, with the accounts that may reach it. A pull gets many reply messages, all other calls one."""
    services: dict[str, list[str]] = {}
    streams: dict[str, list[str]] = {}
    for guest in guests:
        for subject, _ in _guest_exports(guest):
            services.setdefault(subject, []).append(guest.identity)
        for subject in guest.hear:
            streams.setdefault(subject, []).append(guest.identity)
    for subject, names in services.items():
        many = _MANY if ".CONSUMER.MSG.NEXT." in subject or subject == ASK_PROCESSES else {}
        yield {"service": subject, "accounts": names, **many}
    for subject, names in streams.items():
        yield {"stream": subject, "accounts": names}


def _tls_lines(tls: Tls | None) -> list[str]:
    if tls is None:
        return []
    files = [f"  cert_file: {quote_string(tls.certificate)}", f"  key_file: {quote_string(tls.key)}"]
    if tls.ca is not None:
        files += [f"  ca_file: {quote_string(tls.ca)}", "  verify: true"]
    return ["tls {", *files, "}"]


def _cluster_lines(cluster: Cluster | None) -> list[str]:
    if cluster is None:
        return []
    routes = ", ".join(map(quote_string, cluster.routes))
    return [
        "cluster {",
        f"  name: {quote_string(cluster.name)}",
        f"  listen: {quote_string(cluster.listen)}",
        f"  authorization {{ user: gatewright, password: ${CLUSTER_PASSWORD} }}",
        f"  routes: [{routes}]",
        "}",
    ]
