"""``forges.json``: checks beyond its schema, and the secrets that it refers to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from gatewright.app.http_access import is_loopback
from gatewright.contracts import Forges, codec
from gatewright.contracts.forge_policy import ForgeEntry, SecretReference
from gatewright.errors import ConfigurationError, MalformedError
from gatewright.git.access.repository_patterns import EVERYTHING, check_pattern, place_of
from gatewright.git.refs import check_ref
from gatewright.policy_files import EnvironmentKey, FileKey, KeyOwner, PolicyFile

#: Variables of this prefix reach every process, so that none of them may hold a token.
_OF_ALL_PROCESSES: Final = "GATEWRIGHT_"
#: Landing modes that move the target: the gatekeeper merges then, and not the forge.
_MOVES_TARGET: Final = frozenset({"target", "queue"})
TOKEN: Final = KeyOwner("the forge", "forge_token_missing")


def _decode(data: bytes, kind: type[Forges]) -> Forges:
    """Decode the policy. Messages name places alone: a token that was written into the file by mistake is not repeated."""
    try:
        return codec.decode(data, kind)
    except MalformedError as error:
        places = "; ".join(f"{fault.pointer or '/'}: {fault.code}" for fault in error.faults)
        raise MalformedError(places or "it is not valid JSON") from None


FORGES_FILE: Final = PolicyFile("forges.json", Forges, decode=_decode)


def load_forges(folder: Path) -> tuple[ForgeEntry, ...]:
    """Return the entries of ``forges.json``.

    Args:
        folder: the operator's policy folder.

    Raises:
        ConfigurationError: ``forge_policy_missing`` without the file; otherwise it names the file and the entry.
    """
    loaded = FORGES_FILE.load_if_present(folder)
    path = FORGES_FILE.path(folder)
    if loaded is None:
        raise ConfigurationError(f"no repository is on a forge: there is no {path}", code="forge_policy_missing")
    entries = loaded.policy.forges
    for name, count in (Counter(e.name for e in entries) + Counter(e.repository for e in entries)).items():
        if count > 1:
            raise ConfigurationError(f"{path}: {count} entries have {name}: each entry needs its own name and repository")
    for entry in entries:
        if (fault := next(_entry_faults(entry), "")) != "":
            raise ConfigurationError(f"{path}: entry {entry.name}: {fault}")
    return entries


def read_secret(reference: SecretReference) -> str:
    """Return the secret. Raises ConfigurationError (``forge_token_missing``), which does not contain it."""
    if reference.environment is not None:
        return EnvironmentKey(environment=reference.environment).read(TOKEN)
    return FileKey(file=Path(reference.file or "/")).read(TOKEN)


def _entry_faults(entry: ForgeEntry) -> Iterator[str]:
    try:
        place_of(entry.repository)
        check_pattern(entry.repository)
    except MalformedError as error:
        yield f"repository: {error.message}"
    if entry.repository == EVERYTHING or entry.repository.endswith(("/", ":")):
        yield "repository: name one repository"
    api = urlsplit(entry.api)
    if api.scheme != "https" and not is_loopback(api.hostname or ""):
        yield "api: use https, or http on this host: others could read the token"
    if not {".", ".."}.isdisjoint(entry.project.split("/")):
        yield "project: a part with only dots"
    try:
        if entry.target != check_ref(entry.target) or entry.target.startswith("refs/"):
            yield "target: name the branch without refs/heads/"
    except MalformedError as error:
        yield f"target: {error.message}"
    for name, reference in (("token", entry.token), ("webhook_secret", entry.webhook_secret)):
        if reference is not None and (fault := _secret_fault(reference)):
            yield f"{name}: {fault}"
    if entry.judge is not None and (entry.judge.landing in _MOVES_TARGET) != (entry.merge == "gatekeeper"):
        yield "judge.landing: target and queue go with merge gatekeeper, branch and none with the other values"
    if entry.judge is None and entry.merge == "gatekeeper":
        yield "merge: gatekeeper goes with judge, as the gatekeeper ends the requests that it judged"


def _secret_fault(reference: SecretReference) -> str:
    if (reference.environment is None) == (reference.file is None):
        return "name exactly one of environment and file"
    if (reference.environment or "").upper().startswith(_OF_ALL_PROCESSES):
        return f"a variable that begins with {_OF_ALL_PROCESSES} reaches every process: choose another name"
    return ""
