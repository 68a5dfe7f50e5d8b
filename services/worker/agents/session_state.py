"""State of an agent's session between two rounds: the files of its home with the conversation, as one artifact.

Any worker can restore it in a new home and let the agent continue. The agent wrote it, so it is hostile: it is read when the
agent is dead, no link is followed, sizes are bounded, suspected secrets are dropped; and it is checked again before it is
restored. Configuration is never part of it: only the paths in ``session_files`` of the agent's entry are.
"""

from __future__ import annotations

import base64
import binascii
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Final, Literal

import msgspec

from gatewright.agents.installation import InstalledAgent
from gatewright.contracts.vocabulary import Document
from gatewright.errors import MalformedError
from gatewright.foreign_documents import UnreadableDocumentError, read_json
from gatewright.sandbox.account import SandboxAccount
from gatewright.secrets.redaction import redact_output
from gatewright.secrets.scanner import SecretScanner

#: Bytes of all files of a state, of the artifact, files, and folders on the way to one.
MOST_BYTES: Final = 8 << 20
_MOST_ARTIFACT: Final = 2 * MOST_BYTES
MOST_FILES: Final = 64
_MOST_PLACES: Final = 512
_MOST_PARTS: Final = 12
_MOST_NAME: Final = 1_024
_MOST_ID: Final = 500


class SessionFile(Document):
    """``path`` lies below the home. Its content is ``text``, or ``base64`` where it is no UTF-8."""

    path: str
    text: str | None = None
    base64: str | None = None


class SessionState(Document):
    """``agent_version`` is the version that wrote it: another may read it otherwise. ``session`` is the agent's own id."""

    version: Literal["1"]
    agent: str
    agent_version: str
    session: str
    files: tuple[SessionFile, ...]


class SessionNotKeptError(Exception):
    """Why a session cannot be gone on with, in words; the next round begins a new one."""


def pack(agent: InstalledAgent, session: str, folders: Mapping[str, Path], scanner: SecretScanner) -> bytes:
    """The state of ``session``; ``folders`` hold what lay at each of the agent's ``session_files``.

    Runs long: use a thread. Raises SessionNotKeptError.
    """
    files: list[SessionFile] = []
    left = MOST_BYTES
    for place, folder in folders.items():
        for path, data in _session_files(folder):
            left -= len(data)
            if left < 0 or len(files) >= MOST_FILES:
                raise SessionNotKeptError(f"it has more than {MOST_FILES} files or {MOST_BYTES} bytes")
            name = f"{place}/{path}"
            if redact_output(name, data, scanner).redactions:
                raise SessionNotKeptError("it holds what looks like a secret")
            files.append(_file(name, data))
    if not files or not session:
        raise SessionNotKeptError("the agent left none")
    entry = agent.entry.name
    state = SessionState(version="1", agent=entry, agent_version=agent.version, session=session, files=tuple(files))
    return msgspec.json.encode(state)


def unpack(data: bytes, agent: InstalledAgent) -> SessionState:
    """The state in an artifact, checked. Raises MalformedError for one that is none, or is another agent's."""
    if len(data) > _MOST_ARTIFACT:
        raise MalformedError(f"it has {len(data)} bytes")
    try:
        state = read_json(data, SessionState)
    except UnreadableDocumentError as error:
        raise MalformedError(f"it is no state of a session: {error}") from error
    if (state.agent, state.agent_version) != (agent.entry.name, agent.version):
        words = f"it is of {state.agent[:64]} {state.agent_version[:64]}"
        raise MalformedError(f"{words}, and here is {agent.entry.name} {agent.version}")
    if not 0 < len(state.session) <= _MOST_ID or not state.session.isprintable() or state.session.startswith("-"):
        raise MalformedError("its id is none")
    if len(state.files) > MOST_FILES or sum(len(bytes_of(file)) for file in state.files) > MOST_BYTES:
        raise MalformedError("it is too large")
    _check_paths([file.path for file in state.files], agent.entry.session_files)
    return state


def lay_out(
    state: SessionState | None, folders: Mapping[str, Path], account: SandboxAccount, renames: Mapping[str, str]
) -> None:
    """Make ``folders``, with the files of ``state`` in them, as the agent's own; ``renames`` are ``session_renames``."""
    for place, folder in folders.items():
        folder.mkdir(mode=0o700)
        for file in state.files if state is not None else ():
            if file.path.startswith(f"{place}/"):
                target = folder / file.path.removeprefix(f"{place}/")
                target = target.with_name(_laid_out_as(target.name, renames))
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                target.write_bytes(bytes_of(file))
        if account.switched:
            for made in (folder, *folder.rglob("*")):
                shutil.chown(made, account.uid, account.gid)


def _laid_out_as(name: str, renames: Mapping[str, str]) -> str:
    """The name once; one that was laid out so before keeps it."""
    for start, other in renames.items():
        if name.startswith(start) and not name.startswith(other):
            return other + name.removeprefix(start)
    return name


def bytes_of(file: SessionFile) -> bytes:
    """The content of a file. Raises MalformedError for one that has none, or two."""
    if (file.text is None) == (file.base64 is None):
        raise MalformedError("a file of it has no content, or two")
    try:
        return base64.b64decode(file.base64, validate=True) if file.base64 is not None else (file.text or "").encode()
    except (binascii.Error, ValueError) as error:
        raise MalformedError("a file of it has no content") from error


def _check_paths(paths: list[str], places: tuple[str, ...]) -> None:
    """Below the places that the entry names, plain, each once, and none the folder of another."""
    seen: set[str] = set()
    folders: set[str] = set()
    for path in paths:
        pure = PurePosixPath(path)
        plain = str(pure) == path and not pure.is_absolute() and ".." not in pure.parts and "\0" not in path
        if not plain or len(path) > _MOST_NAME or not any(path.startswith(f"{place}/") for place in places):
            raise MalformedError("a file of it lies where no session is kept")
        if path in seen:
            raise MalformedError("a file of it is there twice")
        seen.add(path)
        folders.update(str(above) for above in pure.parents)
    if seen & folders:
        raise MalformedError("a file of it is the folder of another")


def _session_files(root: Path) -> Iterator[tuple[str, bytes]]:
    """Files below ``root`` by path. Raises SessionNotKeptError for a link, for what is no file, and for too many places."""
    places = 0
    for folder, below, names, handle in os.fwalk(root, follow_symlinks=False):
        inside = Path(folder).relative_to(root)
        if len(inside.parts) > _MOST_PARTS:
            raise SessionNotKeptError("its folders are too deep")
        for name in sorted((*below, *names)):
            places += 1
            kind = os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode
            if places > _MOST_PLACES or not (stat.S_ISDIR(kind) or stat.S_ISREG(kind)):
                raise SessionNotKeptError("it holds a link, or more files than one has")
            if stat.S_ISREG(kind):
                yield _printable_name(inside / name), _read_entry(name, handle)


def _read_entry(name: str, folder: int) -> bytes:
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    with os.fdopen(file, "rb") as opened:
        return opened.read(MOST_BYTES + 1)


def _printable_name(path: Path) -> str:
    name = path.as_posix()
    if len(name) > _MOST_NAME or not name.isprintable():
        raise SessionNotKeptError("a file of it has an unusable name")
    return name


def _file(name: str, data: bytes) -> SessionFile:
    try:
        return SessionFile(path=name, text=data.decode())
    except UnicodeDecodeError:
        return SessionFile(path=name, base64=base64.b64encode(data).decode())
