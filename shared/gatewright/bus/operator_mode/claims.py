"""Accounts as JWT claims, derived from the same block as the configuration file, so that both cannot differ.

Where a configuration names accounts (``accounts`` of an export), claims use activations: an export needs a token, and the
token is for one account. Other accounts of the same operator therefore reach nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gatewright.bus.operator_mode.tokens import SigningNkey, sign_token
from gatewright.errors import ConfigurationError

_NANOSECONDS = 1_000_000_000
_UNLIMITED = -1
#: The entry for all users in an account's revocation list.
_EVERY_USER = "*"


def account_claims(
    name: str,
    block: Mapping[str, Any],
    keys: Mapping[str, SigningNkey],
    scopes: Sequence[Mapping[str, Any]],
    revoked: Mapping[str, int],
    issued: int,
) -> dict[str, Any]:
    """Return the claims of an account.

    Args:
        block: the account's part of the configuration file.
        keys: the keys of every account, by name.
        scopes: the claims of its users (``scope_claims``).
        revoked: public keys of users, with the Unix time up to which tokens issued to them are invalid.
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
    """Return the claims of a removed account: it accepts no user and reaches nothing."""
    return {"type": "account", "limits": {**_limits({}), "conn": 0}, "revocations": {_EVERY_USER: issued}}


def scope_claims(key: SigningNkey, identity: str, user: Mapping[str, Any]) -> dict[str, Any]:
    """Return the permissions of users signed with this key. They are part of the account, so they can change for existing
    users.

    A user's own token thereby stays short enough for every server to accept it at connect time. An empty list would permit
    everything, so it is refused. Raises ConfigurationError.
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
