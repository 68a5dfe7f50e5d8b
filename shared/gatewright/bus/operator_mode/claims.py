"""Accounts as claims, made of the very block that a configuration file holds: both ways cannot say different things.

What a configuration says by naming accounts (``accounts`` of an export) is said here by activations: an export needs a token,
and the token is for one account. Accounts of others under the same operator thereby reach nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gatewright.bus.operator_mode.tokens import SigningNkey, sign_token
from gatewright.errors import ConfigurationError

_NANOSECONDS = 1_000_000_000
_UNLIMITED = -1
#: All users of an account, in its list of the revoked.
_EVERY_USER = "*"


def account_claims(
    name: str,
    block: Mapping[str, Any],
    keys: Mapping[str, SigningNkey],
    scopes: Sequence[Mapping[str, Any]],
    revoked: Mapping[str, int],
    issued: int,
) -> dict[str, Any]:
    """The claims of an account. ``block``: what the configuration file says of it; ``keys``: those of every account by name.
    ``scopes``: of its users (``scope_claims``).

    ``revoked``: public keys of users, and the time up to which what was issued to them counts no more.
    """
    return {
        "type": "account",
        "limits": _limits(block),
        "exports": [_export(each) for each in block.get("exports", ())],
        "imports": [_import(each, keys[name], keys, issued) for each in block.get("imports", ())],
        "mappings": {source: [{"subject": target}] for source, target in block.get("mappings", {}).items()},
        "signing_keys": [*scopes],
        "revocations": dict(revoked),
        "default_permissions": {"pub": {}, "sub": {}},
    }


def closed_claims(issued: int) -> dict[str, Any]:
    """The claims of an account that is no more: no user of it is accepted, and it reaches nothing."""
    return {"type": "account", "limits": {**_limits({}), "conn": 0}, "revocations": {_EVERY_USER: issued}}


def scope_claims(key: SigningNkey, identity: str, user: Mapping[str, Any]) -> dict[str, Any]:
    """What a user may do that this key of the account has signed: the account says it, so that it can change for users that are
    there, and a user's own token stays so short that every server takes it when it connects.

    An empty list would let it do anything, so there is none. Raises ConfigurationError.
    """
    permissions = user["permissions"]
    allowed = {side: permissions[side]["allow"] for side in ("publish", "subscribe")}
    if not all(allowed.values()):
        raise ConfigurationError(f"{identity} without a subject of its own cannot be held to anything", code="identity_invalid")
    may = {"pub": {"allow": allowed["publish"]}, "sub": {"allow": allowed["subscribe"]}}
    limits = dict.fromkeys(("subs", "data", "payload"), _UNLIMITED)
    return {"kind": "user_scope", "key": key.public, "role": identity, "template": {**may, **limits}}


def user_claims(account: SigningNkey) -> dict[str, Any]:
    """The claims of a user: of which account it is. All else is in the scope of the key that signs it."""
    return {"type": "user", "issuer_account": account.public}


def operator_claims(system_account: str) -> dict[str, Any]:
    return {"type": "operator", "system_account": system_account}


def system_claims() -> dict[str, Any]:
    """The account in which servers speak of themselves; it holds no message of ours."""
    return {"type": "account", "limits": _limits({})}


def _limits(block: Mapping[str, Any]) -> dict[str, Any]:
    own = block.get("limits", {})
    streams = block.get("jetstream")
    kept = streams if isinstance(streams, Mapping) else {}
    stored = _UNLIMITED if streams else 0
    return {
        "subs": own.get("max_subscriptions", _UNLIMITED),
        "conn": own.get("max_connections", _UNLIMITED),
        "payload": own.get("max_payload", _UNLIMITED),
        "leaf": 0,
        "data": _UNLIMITED,
        "imports": _UNLIMITED,
        "exports": _UNLIMITED,
        "wildcards": True,
        "disallow_bearer": True,
        "mem_storage": 0,
        "disk_storage": kept.get("max_file", stored),
        "streams": stored,
        "consumer": stored,
    }


def _export(each: Mapping[str, Any]) -> dict[str, Any]:
    kind = "service" if "service" in each else "stream"
    claim = {"name": each[kind], "subject": each[kind], "type": kind, "token_req": True}
    if kind == "stream":
        return claim
    if "response_type" not in each:
        return {**claim, "response_type": "Singleton"}
    seconds = int(each["threshold"].removesuffix("s"))
    return {**claim, "response_type": "Stream", "response_threshold": seconds * _NANOSECONDS}


def _import(each: Mapping[str, Any], importer: SigningNkey, keys: Mapping[str, SigningNkey], issued: int) -> dict[str, Any]:
    kind = "service" if "service" in each else "stream"
    subject, exporter = each[kind]["subject"], keys[each[kind]["account"]]
    activation = {"type": "activation", "subject": subject, "kind": kind}
    claim = {
        "name": subject,
        "subject": subject,
        "account": exporter.public,
        "token": sign_token(exporter, importer.public, subject, activation, issued),
        "type": kind,
    }
    return {**claim, "local_subject": each["to"]} if "to" in each else claim
