"""Decides what of the host an environment prefix shows to a command.

A prefix is a folder with a ``bin`` (a virtual environment, a conda environment, an interpreter's own folder). It is bound
read-only at its own path, because virtual environments hold absolute paths; and so are the folders of the interpreters that its
``bin/python`` links to. Nothing above any of these is shown. A folder that is a home, holds one, or holds secrets at its top is
refused: an environment has none of them, so it is a slip of the operator or an attack.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gatewright.errors import ConfigurationError
from gatewright.sandbox.account import Account

#: Folders that are never a prefix, nor inside one.
_NEVER: Final = (
    *("/boot", "/dev", "/etc", "/home", "/lost+found", "/media", "/mnt", "/opt", "/proc", "/root", "/run", "/srv", "/sys"),
    *("/tmp", "/var", "/var/lib", "/var/tmp", "/workspace"),  # noqa: S108 - named to be refused
)
#: Folders that hold nothing that may be shown.
_CLOSED: Final = ("/dev", "/etc", "/proc", "/run", "/sys", "/var/run", "/workspace")
#: What only a home has at its top.
_SECRETS: Final = frozenset(
    {
        *(
            ".ssh",
            ".aws",
            ".gnupg",
            ".azure",
            ".kube",
            ".docker",
            ".netrc",
            ".git-credentials",
            ".pypirc",
            ".npmrc",
            ".password-store",
        ),
        *(".config", ".bash_history", ".gatewright"),
    }
)
_SYSTEM: Final = "/usr"
#: uids of people; below are accounts of the system, whose homes are folders such as /bin.
_FIRST_PERSON: Final = 1000
_NOBODY: Final = 65534
_MOST_LINKS: Final = 16


@dataclass(frozen=True, slots=True)
class Prefix:
    """``binds`` are (folder on the host, path inside) pairs, outer ones first; ``virtual``: it has a pyvenv.cfg."""

    path: Path
    binds: tuple[tuple[Path, Path], ...]
    virtual: bool


def home_folders() -> frozenset[Path]:
    """The homes of people on this host, of root and of the caller, with all links resolved."""
    accounts = [entry for entry in pwd.getpwall() if entry.pw_uid in (0, os.getuid()) or entry.pw_uid >= _FIRST_PERSON]
    return frozenset(Path(entry.pw_dir).resolve() for entry in accounts if entry.pw_uid != _NOBODY)


def inspect_prefix(path: Path, *, homes: Iterable[Path], account: Account) -> Prefix:
    """What of the host ``path`` shows. Raises ConfigurationError when it must not be shown, or cannot be used.

    ``homes`` are folders that must not be shown, as ``home_folders`` gives them; ``account`` must be able to read the prefix.
    """
    if not path.is_absolute() or ".." in path.parts:
        raise ConfigurationError(f"the environment {path} is not an absolute path")
    refused = frozenset(homes)
    binds: dict[Path, Path] = {}
    for shown in (path, *_interpreter_folders(path)):
        source = _checked(shown, refused, account)
        for inside in (shown, source):
            if not _within(inside, _SYSTEM):
                binds[inside] = source
    if not (path / "bin").is_dir():
        raise ConfigurationError(f"the environment {path} has no folder bin")
    pairs = sorted(((source, inside) for inside, source in binds.items()), key=lambda pair: len(pair[1].parts))
    return Prefix(path, tuple(pairs), (path / "pyvenv.cfg").is_file())


def _checked(shown: Path, homes: frozenset[Path], account: Account) -> Path:
    try:
        real = shown.resolve(strict=True)
        entries = {entry.name for entry in os.scandir(real)}
    except (OSError, RuntimeError) as error:
        raise ConfigurationError(f"the environment {shown} cannot be read: {error}") from error
    for folder in {shown, real}:
        if any(_within(never, folder) for never in _NEVER) or any(_within(folder, closed) for closed in _CLOSED):
            raise ConfigurationError(f"the environment {shown} is a folder of the system ({folder})")
        if any(_within(home, folder) for home in homes if home != home.parent):
            raise ConfigurationError(f"the environment {shown} is, or holds, a home folder ({folder})")
    if found := sorted(_SECRETS & entries):
        raise ConfigurationError(f"the environment {shown} holds {found[0]}: not an environment")
    if account.switched and not _open_to_all(real):
        raise ConfigurationError(
            f"the environment {shown} cannot be read by uid {account.uid}, which commands run as because the service runs as "
            "root; make it readable (chmod -R o+rX), or run the service as an ordinary user"
        )
    return real


def _open_to_all(folder: Path) -> bool:
    wanted = stat.S_IROTH | stat.S_IXOTH
    return all(place.stat().st_mode & wanted == wanted for place in (folder, folder / "bin") if place.is_dir())


def _interpreter_folders(prefix: Path) -> Iterator[Path]:
    """The folders that hold the interpreter which ``prefix`` borrows: as each link on the way names it."""
    place = prefix / "bin" / "python"
    for _ in range(_MOST_LINKS):
        if not place.is_symlink():
            break
        place = Path(os.path.normpath(place.parent / place.readlink()))
        if place.parent.name == "bin" and place.parent.parent != prefix:
            yield from _folder(place.parent.parent)
    settings = prefix / "pyvenv.cfg"
    if settings.is_file():
        for line in settings.read_text("utf-8", "replace").splitlines():
            key, _, value = line.partition("=")
            if key.strip() == "home" and (home := Path(value.strip())).is_absolute() and home.name == "bin":
                yield from _folder(home.parent)


def _folder(folder: Path) -> Iterator[Path]:
    """Nothing for what every command sees anyway (/usr, and / because /bin is a link into /usr)."""
    if folder != folder.parent and not _within(folder.resolve(), _SYSTEM):
        yield folder


def _within(path: Path | str, folder: Path | str) -> bool:
    """Whether ``path`` is ``folder`` or below it; both absolute, links not resolved."""
    return f"{path}/".startswith(f"{str(folder).rstrip('/')}/")
