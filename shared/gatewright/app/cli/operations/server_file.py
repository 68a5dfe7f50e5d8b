"""The server configuration as the command line is asked for it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gatewright.app.cli.context import find_place
from gatewright.bus.identities import bus_keys, earlier_keys, public_keys
from gatewright.bus.identity_limits import read
from gatewright.bus.server_config import Cluster, ServerConfig, Tls, accounts, render
from gatewright.errors import MalformedError


@dataclass(frozen=True, slots=True)
class ServerFile:
    """``keys``: by default those of the home folder; ``store`` must be given: the server's file system is not this one."""

    keys: Path | None
    store: Path | None
    pools: tuple[str, ...]
    partitions: int
    listen: str
    monitor: str
    server_name: str
    cluster: Cluster | None
    tls: Tls | None


def server_file(wanted: ServerFile) -> str:
    """Raises MalformedError (``invalid_input``), ConfigurationError when the identities are not there."""
    if wanted.store is None:
        raise MalformedError("say with --store where the server keeps its streams", code="invalid_input")
    keys = wanted.keys or bus_keys(find_place().home)
    config = ServerConfig(
        store=wanted.store,
        accounts=accounts(public_keys(keys), wanted.pools, earlier_keys(keys), read(keys), wanted.partitions),
        pools=wanted.pools,
        partitions=wanted.partitions,
        listen=wanted.listen,
        monitor=wanted.monitor,
        server_name=wanted.server_name,
        tls=wanted.tls,
        cluster=wanted.cluster,
    )
    return render(config)


def tls_of(certificate: Path | None, key: Path | None, ca: Path | None) -> Tls | None:
    """Raises MalformedError when one of the two files is missing."""
    if certificate is not None and key is not None:
        return Tls(certificate, key, ca)
    if certificate is None and key is None and ca is None:
        return None
    raise MalformedError("TLS needs both --tls-cert and --tls-key", code="invalid_input")
