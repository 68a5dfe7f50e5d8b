"""``transfers.json``: whether transfers to providers need approval, and the guard that enforces it in a gateway."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from gatewright.budgets import Spend, spend_freely
from gatewright.contracts.transfers import TransferLeave, TransferRole
from gatewright.errors import DeniedError
from gatewright.policy_files import PolicyFile, PolicyModel

NOT_APPROVED = "transfer_not_approved"
_PORTS = {"http": 80, "https": 443}


class Reached(Protocol):
    """A provider's addresses, from ``models.json``."""

    @property
    def name(self) -> str: ...

    @property
    def base_url(self) -> str: ...

    @property
    def proxy(self) -> str | None: ...


class Named(Protocol):
    """A model by the name that its provider knows."""

    @property
    def upstream_name(self) -> str: ...


class TransfersPolicy(PolicyModel):
    """``internal`` are the operator's hosts, exact or ``*.suffix``. ``roles`` may get approval to send to others.

    ``low_risk_bytes``: sources of more are not of low risk. ``scan_bytes``: the amount that is scanned for secrets.
    ``most_bytes``: what one task may send in all, over all its deliveries.
    """

    version: Literal["1"]
    external_transfers: Literal["manual", "auto_low_risk"] = Field(alias="externalTransfers")
    internal: tuple[str, ...] = ()
    roles: tuple[TransferRole, ...] = ("worker", "reviewer")
    low_risk_bytes: int = Field(default=1 << 20, ge=0)
    scan_bytes: int = Field(default=64 << 20, ge=0)
    most_bytes: int = Field(default=256 << 20, gt=0)

    @field_validator("internal")
    @classmethod
    def _hosts(cls, hosts: tuple[str, ...]) -> tuple[str, ...]:
        for host in hosts:
            name = host.removeprefix("*.")
            if not name or "*" in name or "/" in name or name != name.lower().strip():
                raise ValueError(f"{host!r} is not a host: use models.example.org or *.example.org, in lower case")
        return hosts

    def is_internal(self, provider: Reached) -> bool:
        """Return whether a provider, and the proxy to it, are the operator's own."""
        addresses = [provider.base_url, *([provider.proxy] if provider.proxy else [])]
        return all(self._own(urlsplit(each).hostname or "") for each in addresses)

    def _own(self, host: str) -> bool:
        return any(host == own or (own.startswith("*.") and host.endswith(own[1:])) for own in self.internal)


TRANSFERS_FILE = PolicyFile("transfers.json", TransfersPolicy)


def endpoint_of_provider(provider: Reached) -> str:
    """``SCHEME://HOST:PORT`` that calls go to, with the proxy that they go through."""
    parts = urlsplit(provider.base_url)
    through = f" through {_origin(provider.proxy)}" if provider.proxy else ""
    return f"{parts.scheme}://{_host(parts.hostname)}:{parts.port or _PORTS[parts.scheme]}{through}"


def _origin(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{_host(parts.hostname)}:{parts.port or _PORTS[parts.scheme]}"


def _host(name: str | None) -> str:
    return f"[{name}]" if name is not None and ":" in name else name or ""


@dataclass(slots=True)
class TransferGuard:
    """The guard for one delivery of one task. Without ``policy`` and ``leave`` nothing needs approval.

    ``sent`` counts the bytes of all bodies under the approval, failed attempts included; ``spend`` is called for each
    before it is sent, so that the gatekeeper can total the transfers of all deliveries.
    """

    run_id: str
    role: str
    policy: TransfersPolicy | None = None
    leave: TransferLeave | None = None
    spend: Spend = spend_freely
    sent: int = 0

    def by_manifest(self) -> str | None:
        """The digest of the manifest that is sent by; None without a leave."""
        return self.leave.manifest_sha256 if self.leave is not None else None

    def stays(self, provider: Reached) -> bool:
        """Return whether data for ``provider`` stays with the operator, by this policy."""
        return self.policy is not None and self.policy.is_internal(provider)

    def check(self, provider: Reached, model: Named, size: int) -> None:
        """Count ``size`` bytes that are about to be sent. Raises DeniedError (``transfer_not_approved``): they may not be.

        Raises what ``spend`` raises.
        """
        if self.policy is None and self.leave is None:
            return
        if self.leave is None:
            if not self.stays(provider):
                raise _refuse_transfer(
                    f"no manifest was approved by which the {self.role} may send anything to {provider.name}"
                )
            return
        if (self.leave.run_id, self.leave.role) != (self.run_id, self.role):
            raise _refuse_transfer(f"the manifest is that of the {self.leave.role} of {self.leave.run_id}")
        endpoint, name = endpoint_of_provider(provider), model.upstream_name
        named = any((e.provider, e.endpoint, e.model) == (provider.name, endpoint, name) for e in self.leave.destinations)
        if not named:
            raise _refuse_transfer(f"the approved manifest does not name {name} of {provider.name} at {endpoint}")
        if self.sent + size > self.leave.most_bytes:
            raise _refuse_transfer(f"{self.leave.most_bytes} bytes may be sent, {self.sent} were, and these are {size} more")
        self.sent += size
        self.spend(sent_bytes=size)


def _refuse_transfer(words: str) -> DeniedError:
    return DeniedError(words, code=NOT_APPROVED)
