"""The base of the operator's policy files (frozen models that refuse unknown fields), and their reader.

A policy never contains a key. It refers to one: a variable, a file or an entry of the keyring, read on use.
"""

from __future__ import annotations

import hashlib
import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Generic, Literal, NamedTuple, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from gatewright.errors import ConfigurationError, MalformedError
from gatewright.resources import policy_directory
from gatewright.validation_faults import fault_lines

#: Bytes of a file that holds a key; more is no key.
_LARGEST = 4096
_VISIBLE = range(0x21, 0x7F)


class PolicyEntry(NamedTuple):
    """One policy file, and its readers.

    ``required``: every gatekeeper needs it. ``optional``: a gatekeeper may lack it. ``apart``: a file about people, which
    follows these in the digest, or one that the digest excludes. ``also_read_by``: roles, and ``COMMAND_LINE``; the
    gatekeeper reads every file but ``retention.json``, ``forges.json``, ``egress.json``, ``sinks.json`` and
    ``deployments.json``.
    """

    name: str
    presence: Literal["required", "optional", "apart"]
    also_read_by: frozenset[str] = frozenset()


COMMAND_LINE: Final = "command line"
APPROVAL_RULES: Final = "approval_rules.json"
ROSTER: Final = "approvers.json"
_CALL_MODELS: Final = frozenset({"pm", "techlead", "worker", "reviewer", COMMAND_LINE})
#: Every policy file, in the order of the digest over all policies.
POLICY_FILES: Final = (
    PolicyEntry("agent_registry.json", "required"),
    PolicyEntry("command_allowlist.json", "required"),
    PolicyEntry("forbidden_actions.json", "required"),
    PolicyEntry("protected_paths.json", "required"),
    PolicyEntry("roles.json", "required"),
    PolicyEntry("policy_packs.json", "required"),
    PolicyEntry("publishers.json", "required"),
    PolicyEntry("models.json", "required", _CALL_MODELS),
    PolicyEntry("agents.json", "required", frozenset({"worker", COMMAND_LINE})),
    PolicyEntry("environments.json", "required", frozenset({"pm", COMMAND_LINE})),
    PolicyEntry("summons.json", "optional"),
    PolicyEntry("memory.json", "optional"),
    PolicyEntry("research.json", "optional", frozenset({"worker"})),
    PolicyEntry("routing_rules.json", "optional"),
    PolicyEntry("transfers.json", "optional", _CALL_MODELS),
    PolicyEntry("repositories.json", "optional", _CALL_MODELS | {"testrunner"}),
    PolicyEntry("pools.json", "optional"),
    PolicyEntry("shares.json", "optional"),
    PolicyEntry("beats.json", "optional"),
    PolicyEntry("queues.json", "optional"),
    PolicyEntry("budgets.json", "optional"),
    PolicyEntry("licences.json", "optional"),
    PolicyEntry("vulnerabilities.json", "optional"),
    PolicyEntry(APPROVAL_RULES, "apart"),
    PolicyEntry(ROSTER, "apart"),
    PolicyEntry("CODEOWNERS", "apart"),
    PolicyEntry("retention.json", "apart", frozenset({COMMAND_LINE})),
    PolicyEntry("stores.json", "apart", frozenset({COMMAND_LINE})),
    PolicyEntry("forges.json", "apart", frozenset({COMMAND_LINE})),
    PolicyEntry("egress.json", "apart", frozenset({COMMAND_LINE})),
    PolicyEntry("sinks.json", "apart", frozenset({COMMAND_LINE})),
    PolicyEntry("deployments.json", "apart", frozenset({COMMAND_LINE})),
)
#: The files that every gatekeeper needs, and those that follow in the digest; others are sorted by name.
REQUIRED: Final = tuple(each.name for each in POLICY_FILES if each.presence == "required")
OPTIONAL: Final = tuple(each.name for each in POLICY_FILES if each.presence == "optional")
#: The folder of the organisation's own rules; it may be empty.
ORGANISATION: Final = "organisation"
_KNOWN: Final = (*(each.name for each in POLICY_FILES), ORGANISATION)
#: Letters by which a name may differ from one of these and is still taken for a slip of the pen; longer names are none.
_SLIP: Final = 2
_LONGEST_NAME: Final = 40
#: A folder that lacks at most this many of its policies has lost them: it is no overlay of the delivered ones.
_LOST: Final = 2


class KeyOwner(NamedTuple):
    """A description of a key's use, and the code of the error if it is missing."""

    words: str
    code: str


PROVIDER = KeyOwner("the model's provider", "model_key_missing")


class PolicyModel(BaseModel):
    """Base of all policy files and their parts."""

    # Built when the first file is read: most processes import many kinds of policy, and read few.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


def _absolute(path: Path) -> Path:
    if not path.is_absolute():
        raise ValueError("name the file by its absolute path")
    return path


#: A file that a policy names: its place depends on no folder.
AbsolutePath = Annotated[Path, AfterValidator(_absolute)]
P = TypeVar("P")


class PolicyOrigin(NamedTuple):
    """A policy in force, and its path. ``delivered``: it is from the package."""

    name: str
    path: Path
    delivered: bool


def policy_path(folder: Path, name: str) -> Path:
    """Return the path of the policy ``name``: in the operator's ``folder``, or else among the delivered ones.

    The folder overrides the delivered policies, file by file; its ``organisation`` is one unit. A folder that has all of
    ``REQUIRED`` and ``organisation`` stands alone: files that its operator omitted are not replaced.

    Raises ConfigurationError if the folder cannot be read.
    """
    present = _entries(folder)
    return folder / name if name in present or _stands_alone(present) else policy_directory() / name


def policy_origins(folder: Path) -> tuple[PolicyOrigin, ...]:
    """Return every policy in force with ``folder``, by name. Raises ConfigurationError as ``check_policy_folder`` does."""
    check_policy_folder(folder)
    delivered = policy_directory()
    paths = ((name, policy_path(folder, name)) for name in _KNOWN)
    found = (PolicyOrigin(name, path, path.parent == delivered) for name, path in paths if os.path.lexists(path))
    return tuple(sorted(found))


def check_policy_folder(folder: Path) -> None:
    """Check that everything in ``folder`` that looks like a policy is one, and that no policy was lost.

    A misspelt file would be ignored, and the delivered one used instead. The same applies to a file that is missing from a
    folder that had them all, and to a folder that was not mounted. Raises ConfigurationError (``policy_unknown``,
    ``policy_missing``).
    """
    present = _entries(folder)
    for name in sorted(present - {*_KNOWN}):
        meant = next((each for each in _KNOWN if _is_slip(name.casefold(), each.casefold())), "")
        if meant or name.endswith((".json", ".cel")):
            hint = f"rename it to {meant}" if meant else f"the names are {', '.join(_KNOWN)}; move other files elsewhere"
            raise ConfigurationError(f"{folder / name} is no policy: nothing would read it; {hint}", code="policy_unknown")
    if not present & {*_KNOWN}:
        words = f"{folder} holds no policy: put one file there, or unset GATEWRIGHT_POLICIES for the delivered policies"
        raise ConfigurationError(words, code="policy_missing")
    lost = sorted({*REQUIRED, ORGANISATION} - present)
    if 0 < len(lost) <= _LOST:
        words = f"{folder} has every policy but {' and '.join(lost)}: bring it back, or copy the delivered one"
        raise ConfigurationError(words, code="policy_missing")


def _entries(folder: Path) -> frozenset[str]:
    """Return the names in a folder, without hidden ones: mounts of Kubernetes have such folders of their own."""
    try:
        return frozenset(path.name for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise ConfigurationError(f"policy folder {folder} cannot be read: {error.strerror}") from error


def _is_slip(name: str, known: str) -> bool:
    """Return whether the two names differ in few letters (edit distance)."""
    if abs(len(name) - len(known)) > _SLIP or len(name) > _LONGEST_NAME:
        return False
    row = list(range(len(known) + 1))
    for number, letter in enumerate(name, 1):
        before, row[0] = row[0], number
        for column, other in enumerate(known, 1):
            before, row[column] = row[column], min(row[column] + 1, row[column - 1] + 1, before + (letter != other))
    return row[-1] <= _SLIP


def _stands_alone(present: frozenset[str]) -> bool:
    return present >= {*REQUIRED, ORGANISATION}


def read_policy(path: Path) -> bytes:
    """The bytes of a policy file. Raises ConfigurationError naming it."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"policy file {path} cannot be read: {error.strerror}") from error


def _validate(data: bytes, model: type[P]) -> P:
    return TypeAdapter(model).validate_json(data)


class LoadedPolicy(NamedTuple, Generic[P]):
    """A policy in force, and the hexadecimal sha256 of its file; None where there is none and the default is in force."""

    policy: P
    sha256: str | None


@dataclass(frozen=True, slots=True)
class PolicyFile(Generic[P]):
    """A file of ``POLICY_FILES`` and what it is read as. In text it is its name.

    The models are pydantic's. Agent registry, approval rules and routing rules are documents with published schemas, which
    runs record too: they stay structs, and their ``decode`` is ``contracts.codec.decode``. ``default`` makes the policy that
    is in force without the file.

        BEATS_FILE = PolicyFile("beats.json", BeatsPolicy, default=lambda: QUARTER_HOURS)
        policy, sha256 = BEATS_FILE.load(settings.policies)
    """

    name: str
    model: type[P]
    decode: Callable[[bytes, type[P]], P] = _validate
    default: Callable[[], P] | None = None

    def __str__(self) -> str:
        return self.name

    def path(self, folder: Path) -> Path:
        """Return the path of the file, existing or not; see ``policy_path``."""
        return policy_path(folder, self.name)

    def load(self, folder: Path) -> LoadedPolicy[P]:
        """The policy that is in force with ``folder``.

        Raises ConfigurationError naming the file and the place: it cannot be read, is wrong, or is missing without a default.
        """
        path = self.path(folder)
        if self.default is not None and not path.exists():
            return LoadedPolicy(self.default(), None)
        data = read_policy(path)
        return LoadedPolicy(self.parse(path, data), hashlib.sha256(data).hexdigest())

    def load_if_present(self, folder: Path) -> LoadedPolicy[P] | None:
        """Return the policy as ``load`` does; None without the file."""
        return self.load(folder) if self.path(folder).exists() else None

    def parse(self, path: Path, data: bytes) -> P:
        """``data``, which was read from ``path``. Raises ConfigurationError naming the file and the place."""
        try:
            return self.decode(data, self.model)
        except ValidationError as error:
            raise ConfigurationError(f"{path}: {fault_lines(error)}") from None
        except MalformedError as error:
            raise ConfigurationError(f"{path}: {error.message}") from error


class EnvironmentKey(PolicyModel):
    """A key in a variable of the process that uses it, or in the first line of the file that ``NAME_FILE`` names.

    Container engines pass secrets to programs in such files, without a variable that exposes them.
    """

    environment: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")

    @property
    def names(self) -> tuple[str, str]:
        """The variables that are looked at, the first one first."""
        return self.environment, f"{self.environment}_FILE"

    def read(self, owner: KeyOwner = PROVIDER) -> str:
        """The key. Raises ConfigurationError with the code of its ``owner``."""
        variable, names_file = self.names
        value, file = os.environ.get(variable, ""), os.environ.get(names_file, "")
        if value or not file:
            return _check_key_value(value, f"the variable {variable}", owner)
        if not Path(file).is_absolute():
            raise _missing_key(f"the variable {names_file}", "it names no file by its absolute path", owner)
        return _first_line(Path(file), owner)


class FileKey(PolicyModel):
    """The key is the first line of a file, which no other account should be able to read."""

    file: AbsolutePath

    def read(self, owner: KeyOwner = PROVIDER) -> str:
        """The key. Raises ConfigurationError with the code of its ``owner``."""
        return _first_line(self.file, owner)


class KeyringName(PolicyModel):
    """An entry of the keyring of the account that the process runs as."""

    service: str = Field(min_length=1, max_length=200)
    user: str = Field(min_length=1, max_length=200)


class KeyringKey(PolicyModel):
    """A key in the system's keyring; this needs the package ``keyring``."""

    keyring: KeyringName

    def read(self, owner: KeyOwner = PROVIDER) -> str:
        """The key. Raises ConfigurationError with the code of its ``owner``."""
        where = f"the keyring's entry {self.keyring.service!r}"
        try:
            library = importlib.import_module("keyring")  # wanted by few, and not installed for the others
        except ImportError:
            raise _missing_key(where, "the package keyring is not installed", owner) from None
        try:
            value = library.get_password(self.keyring.service, self.keyring.user)
        except (library.errors.KeyringError, OSError) as error:
            raise _missing_key(where, type(error).__name__, owner) from None
        return _check_key_value(value or "", where, owner)


KeyReference = EnvironmentKey | FileKey | KeyringKey


def _first_line(place: Path, owner: KeyOwner) -> str:
    try:
        with place.open("rb") as file:
            text = file.read(_LARGEST + 1).decode("ascii", "replace")
    except OSError as error:
        raise _missing_key(f"the file {place}", error.strerror or "it cannot be read", owner) from None
    return _check_key_value(text.strip().partition("\n")[0], f"the file {place}", owner)


def _check_key_value(value: str, where: str, owner: KeyOwner) -> str:
    """Return ``value`` if it is valid in a header. The error message never contains it."""
    value = value.strip()
    if not value:
        raise _missing_key(where, "it is empty or not there", owner)
    if len(value) > _LARGEST or any(ord(char) not in _VISIBLE for char in value):
        raise _missing_key(where, "it holds characters that no key has", owner)
    return value


def _missing_key(where: str, why: str, owner: KeyOwner) -> ConfigurationError:
    return ConfigurationError(f"no key of {owner.words}: {where}: {why}", code=owner.code)
