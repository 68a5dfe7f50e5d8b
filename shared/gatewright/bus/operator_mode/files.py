"""The files of operator mode: signing keys, accounts as a server stores them, users' credentials, lines of a configuration.

The keys of accounts are in the folder of the identities (``accounts/<name>.nk``, for its users
``accounts/<name>.scope.nk``). They stay, because signatures refer to them. All else is created again each time, in a folder
of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from gatewright.bus import identities, identity_limits
from gatewright.bus.identities import CREDENTIALS_SUFFIX, RESIDENTS, SEED_SUFFIX, Credential, seed_file
from gatewright.bus.operator_mode import claims
from gatewright.bus.operator_mode.tokens import KeyKind, SigningNkey, new_seed_of, sign_token
from gatewright.bus.server_config import BUS_ACCOUNT, accounts, quote_string
from gatewright.errors import ConfigurationError

#: The operator's key, the system account of servers, and the user that may push accounts to them.
OPERATOR_KEY = "OPERATOR"
SYSTEM = "SYS"

_KEYS = "accounts"
_SCOPE = ".scope"


@dataclass(frozen=True, slots=True)
class OperatorTrust:
    """The configuration of a server in operator mode: the operator it trusts and the accounts it has from the start."""

    operator: str
    system_account: str
    accounts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class JwtIdentities:
    """``accounts``: signed claims by the accounts' names, ``closed`` those that are no more; ``users`` by their identities."""

    operator: str
    keys: Mapping[str, SigningNkey]
    accounts: Mapping[str, str]
    closed: frozenset[str]
    users: Mapping[str, Credential]

    @property
    def trust(self) -> OperatorTrust:
        by_key = {self.keys[name].public: token for name, token in self.accounts.items()}
        return OperatorTrust(self.operator, self.keys[SYSTEM].public, by_key)


def make_jwt(
    directory: Path, pools: tuple[str, ...], issued: int, *, self_signed: bool = False, partitions: int = 1
) -> JwtIdentities:
    """Return accounts and users for the identities in ``directory``, with the permissions of the configuration file.

    Args:
        directory: the folder of the identities.
        pools: the pools of roles.
        issued: seconds of Unix time; a later token replaces an earlier one.
        self_signed: sign accounts with their own keys, for an operator whose tools import and sign them.

    Raises:
        ConfigurationError: a key cannot be read or written.
    """
    limits = identity_limits.read(directory)
    table = accounts(identities.public_keys(directory), pools, identities.earlier_keys(directory), limits, partitions)
    keys = _account_keys(directory, (*table, SYSTEM))
    operator = _load_key(directory, OPERATOR_KEY, "operator")
    revoked = dict.fromkeys(identities.revoked_keys(directory), issued)
    owner = {key: identity for identity, key in identities.public_keys(directory).items()}
    documents = {name: claims.closed_claims(issued) for name in keys}
    documents[SYSTEM] = claims.system_claims()
    for name, block in table.items():
        users = ((owner[user["nkey"]], user) for user in block["users"] if user["nkey"] in owner)
        scopes = [claims.scope_claims(_scope(directory, who), who, user) for who, user in users]
        documents[name] = claims.account_claims(name, block, keys, scopes, revoked, issued)
    tokens = {
        name: sign_token(keys[name] if self_signed else operator, keys[name].public, name, document, issued)
        for name, document in documents.items()
    }
    system = claims.operator_claims(keys[SYSTEM].public)
    return JwtIdentities(
        sign_token(operator, operator.public, "gatewright", system, issued),
        keys,
        tokens,
        frozenset(keys) - {*table, SYSTEM},
        _users(directory, issued),
    )


def write_jwt(made: JwtIdentities, into: Path) -> None:
    """``operator.jwt``, ``accounts/<public key>.jwt``, ``creds/<identity>.creds``. Raises ConfigurationError."""
    try:
        for name in ("", "accounts", "creds"):
            (into / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        identities.write_private(into / "operator.jwt", made.operator)
        for name, token in made.accounts.items():
            identities.write_private(into / "accounts" / f"{made.keys[name].public}.jwt", token)
        for stale in tuple((into / "creds").glob(f"*{CREDENTIALS_SUFFIX}")):
            if stale.stem not in made.users:
                stale.unlink()
        for identity, user in made.users.items():
            identities.write_private(into / "creds" / f"{identity}{CREDENTIALS_SUFFIX}", identities.credentials_text(user))
    except OSError as error:
        raise ConfigurationError(f"{into} cannot be written: {error.strerror}", code="key_unwritable") from error


def system_credential(directory: Path, issued: int) -> Credential:
    """Return a single-use credential that may push accounts to servers; it is stored nowhere. Raises ConfigurationError."""
    account = _load_key(directory, SYSTEM, "account")
    seed = new_seed_of("user")
    user = SigningNkey.of(seed)
    may = {
        "type": "user",
        "pub": {"allow": ["$SYS.REQ.CLAIMS.UPDATE"]},
        "sub": {"allow": [f"_INBOX_{SYSTEM}.>"]},
        **dict.fromkeys(("subs", "data", "payload"), -1),
    }
    return Credential(SYSTEM, seed, token=sign_token(account, user.public, SYSTEM, may, issued))


def token_of(directory: Path, user: Credential, issued: int) -> str:
    """Return the token that an identity's account signs for its key. Raises ConfigurationError."""
    account = BUS_ACCOUNT if user.identity in RESIDENTS else user.identity
    claim = claims.user_claims(_load_key(directory, account, "account"))
    return sign_token(_scope(directory, user.identity), SigningNkey.of(user.seed).public, user.identity, claim, issued)


def _users(directory: Path, issued: int) -> dict[str, Credential]:
    """Return the users whose seed is in the folder; the server learns nothing from it."""
    paths = (seed_file(directory, identity) for identity in identities.public_keys(directory))
    held = [identities.load(path) for path in paths if path.exists()]
    return {user.identity: replace(user, token=token_of(directory, user, issued)) for user in held}


def _scope(directory: Path, identity: str) -> SigningNkey:
    """The key of an account that signs this identity's users, and no others."""
    return _load_key(directory, f"{identity}{_SCOPE}", "account")


def _account_keys(directory: Path, names: tuple[str, ...]) -> dict[str, SigningNkey]:
    """Those of the accounts that there are, and of those that there were: these are closed."""
    known = {path.stem for path in (directory / _KEYS).glob(f"*{SEED_SUFFIX}")} - {OPERATOR_KEY}
    known = {name for name in known if not name.endswith(_SCOPE)}
    return {name: _load_key(directory, name, "account") for name in sorted({*names, *known})}


def _load_key(directory: Path, name: str, kind: KeyKind) -> SigningNkey:
    path = directory / _KEYS / f"{name}{SEED_SUFFIX}"
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        if not path.exists():
            identities.create_private(path, f"{new_seed_of(kind)}\n")
        seed = identities.read_private(path).strip()
        key = SigningNkey.of(seed)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be made: {error.strerror}", code="key_unwritable") from error
    except ValueError as error:
        raise ConfigurationError(f"{path} holds no seed of an nkey", code="key_not_nkey") from error
    if not key.public.startswith("O" if kind == "operator" else "A"):
        raise ConfigurationError(f"{path} holds the nkey of something else than an {kind}", code="key_not_nkey")
    return key


def trust_lines(trust: OperatorTrust, directory: Path) -> tuple[str, ...]:
    """The part of a configuration that takes the place of ``accounts``; the server keeps accounts that it is given there."""
    return (
        f"operator: {trust.operator}",
        f"system_account: {trust.system_account}",
        f'resolver {{ type: full, dir: {quote_string(directory)}, allow_delete: false, interval: "2m" }}',
        "resolver_preload {",
        *(f"  {key}: {token}" for key, token in trust.accounts.items()),
        "}",
        "",
    )
