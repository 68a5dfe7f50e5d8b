"""The host folders that an environment prefix makes visible to a command.

A prefix is a folder with a ``bin`` (a virtual environment, a conda environment, an interpreter's own folder). It is bound
read-only at its own path, because virtual environments contain absolute paths; so are the folders of the interpreters that
its ``bin/python`` links to, if they have the structure of a Python installation. Of a folder that only holds a link to
these (``~/.local/bin``) the link is visible, not the folder. Files in a prefix cannot add others. A folder that is a home,
contains one, or has secrets at its top is refused: a mistake of the operator or an attack.
"""

from __future__ import annotations

import os
import pwd
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gatewright.errors import ConfigurationError
from gatewright.sandbox.account import SandboxAccount
from gatewright.sandbox.environments import read_record
from gatewright.secret_names import CREDENTIAL_PLACES

#: Folders that are never a prefix, nor inside one.
_NEVER: Final = (
    *("/boot", "/dev", "/etc", "/home", "/lost+found", "/media", "/mnt", "/opt", "/proc", "/root", "/run", "/srv", "/sys"),
    *("/tmp", "/var", "/var/lib", "/var/tmp", "/workspace"),  # noqa: S108 - named to be refused
)
#: Folders that must not be visible.
_CLOSED: Final = ("/dev", "/etc", "/proc", "/run", "/sys", "/var/run", "/workspace")
#: Names that only a home has at its top.
_SECRETS: Final = CREDENTIAL_PLACES | {".password-store", ".config", ".bash_history", ".gatewright"}
_SYSTEM: Final = "/usr"
#: uids of people; lower ones are system accounts, whose homes are folders such as /bin.
_FIRST_PERSON: Final = 1000
_NOBODY: Final = 65534
_MOST_LINKS: Final = 16
#: A link in here is shown to every command.
_ALTERNATIVES: Final = "/etc/alternatives"
#: The folder of a standard library, and the names under which interpreters start.
_LIBRARY: Final = re.compile(r"(?:python|pypy)\d+(?:\.\d+t?)?")  # noqa: TID251 - the name of a file, 255 bytes at most
_PROGRAM: Final = re.compile(r"(?:python|pypy)[\d.]*t?")  # noqa: TID251 - the name of a file, 255 bytes at most
LEADS_ELSEWHERE: Final = "environment_leads_elsewhere"


@dataclass(frozen=True, slots=True)
class Prefix:
    """``binds`` are (folder on the host, path inside) pairs, outer ones first; ``links`` are (path inside, text) pairs."""

    path: Path
    binds: tuple[tuple[Path, Path], ...]
    links: tuple[tuple[Path, str], ...]


def home_folders() -> frozenset[Path]:
    """The homes of people on this host, of root and of the caller, with all links resolved."""
    accounts = [entry for entry in pwd.getpwall() if entry.pw_uid in (0, os.getuid()) or entry.pw_uid >= _FIRST_PERSON]
    return frozenset(Path(entry.pw_dir).resolve() for entry in accounts if entry.pw_uid != _NOBODY)


def inspect_prefix(path: Path, *, homes: Iterable[Path], account: SandboxAccount) -> Prefix:
    """Return the visible host folders of ``path``. Raises ConfigurationError if it must not be visible, or is unusable.

    ``homes`` are folders that must not be visible (``home_folders``); ``account`` must be able to read the prefix.
    """
    if not path.is_absolute() or ".." in path.parts:
        raise ConfigurationError(f"the environment {path} is not an absolute path")
    refused = frozenset(homes)
    binds: dict[Path, Path] = {}
    borrowed = _Borrowed(path)
    for shown in (path, *borrowed.folders):
        source = _check_prefix(shown, refused, account)
        for inside in (shown, source):
            if not _is_below(inside, _SYSTEM):
                binds[inside] = source
    if not (path / "bin").is_dir() and read_record(path) is None:
        raise ConfigurationError(f"the environment {path} has no folder bin")
    pairs = sorted(((source, inside) for inside, source in binds.items()), key=lambda pair: len(pair[1].parts))
    links = {place: text for place, text in borrowed.links.items() if not any(_is_below(place, inside) for inside in binds)}
    return Prefix(path, tuple(pairs), tuple(links.items()))


def inspect_folder(path: Path, *, homes: Iterable[Path], account: SandboxAccount) -> None:
    """Raises ConfigurationError when ``path`` must not be shown to a command within its workspace, or cannot be read."""
    if not path.is_absolute() or ".." in path.parts:
        raise ConfigurationError(f"the folder {path} is not an absolute path")
    _check_prefix(path, frozenset(homes), account)


def inspect_installation(path: Path, *, homes: Iterable[Path], account: SandboxAccount) -> Path:
    """The folder of a program's installation, with all links resolved. Raises ConfigurationError as ``inspect_prefix`` does."""
    if not path.is_absolute() or ".." in path.parts:
        raise ConfigurationError(f"the installation {path} is not an absolute path")
    return _check_prefix(path, frozenset(homes), account)


def _check_prefix(shown: Path, homes: frozenset[Path], account: SandboxAccount) -> Path:
    try:
        real = shown.resolve(strict=True)
        entries = {entry.name for entry in os.scandir(real)}
    except (OSError, RuntimeError) as error:
        raise ConfigurationError(f"the environment {shown} cannot be read: {error}") from error
    for folder in {shown, real}:
        if any(_is_below(never, folder) for never in _NEVER) or any(_is_below(folder, closed) for closed in _CLOSED):
            raise ConfigurationError(f"the environment {shown} is a folder of the system ({folder})")
        if any(_is_below(home, folder) for home in homes if home != home.parent):
            raise ConfigurationError(f"the environment {shown} is, or holds, a home folder ({folder})")
        if ".gatewright" in folder.parts and folder.parts[-3:-1] != (".gatewright", "environments"):
            raise ConfigurationError(f"the environment {shown} lies in the home of gatewright ({folder})")
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


class _Borrowed:
    """The interpreter that a prefix links to: ``folders`` are installations, ``links`` are on the path to them.

    Raises ConfigurationError (``environment_leads_elsewhere``) for any other target.
    """

    def __init__(self, prefix: Path) -> None:
        self.folders: list[Path] = []
        self.links: dict[Path, str] = {}
        self._prefix = prefix
        self._record_links(prefix / "bin" / "python")
        for home in _settings(prefix, "home"):
            self._home(Path(home))

    def _record_links(self, place: Path) -> None:
        """Record each link from ``place`` on, because the next one is read through it."""
        for _ in range(_MOST_LINKS):
            if not place.is_symlink():
                return
            place = Path(os.path.normpath(place.parent / place.readlink()))
            if not _is_below(place, self._prefix) and not _belongs_to_system(place.parent):
                self._borrow(place)

    def _borrow(self, place: Path) -> None:
        owner = place.parent.parent
        if place.parent.name == "bin" and _is_python(owner):
            self.folders.append(owner)
        elif place.is_symlink() and not any(_is_below(place, closed) for closed in _CLOSED):
            self.links[place] = str(place.readlink())
        else:
            raise ConfigurationError(
                f"{self._prefix}/bin/python leads to {place}, and {owner} is no Python installation (bin/python and "
                "lib/pythonX.Y/os.py); make the environment with one that is",
                code=LEADS_ELSEWHERE,
            )

    def _home(self, home: Path) -> None:
        """``home`` of a pyvenv.cfg: the folder of the interpreter that the environment was made with."""
        if _belongs_to_system(home):
            return
        if home.is_absolute() and home.name == "bin" and _is_python(home.parent):
            self.folders.append(home.parent)
        elif not any(link.parent == home for link in self.links):
            raise ConfigurationError(
                f"{self._prefix}/pyvenv.cfg names {home} as the home of its interpreter, and that is no bin of a Python "
                "installation (beside lib/pythonX.Y/os.py); make the environment anew",
                code=LEADS_ELSEWHERE,
            )


def _settings(prefix: Path, wanted: str) -> Iterator[str]:
    settings = prefix / "pyvenv.cfg"
    if settings.is_file():
        for line in settings.read_text("utf-8", "replace").splitlines():
            key, _, value = line.partition("=")
            if key.strip() == wanted:
                yield value.strip()


def _is_python(folder: Path) -> bool:
    """Return whether ``folder`` has the structure of a Python installation, or of a virtual environment, with nothing
    outside."""
    if not any(_PROGRAM.fullmatch(name) for name in _names_in(folder / "bin")):
        return False
    libraries = [folder / "lib" / name for name in _names_in(folder / "lib") if _LIBRARY.fullmatch(name)]
    virtual = (folder / "pyvenv.cfg").is_file()
    inside = [each for each in libraries if each.resolve() == folder.resolve() / "lib" / each.name]
    return any((each / "os.py").is_file() or (virtual and (each / "site-packages").is_dir()) for each in inside)


def _names_in(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - names are all that is wanted
    except OSError:
        return []


def _belongs_to_system(folder: Path) -> bool:
    """Return whether every command sees the folder anyway (/usr, and /bin, which is a link into it)."""
    return _is_below(folder.resolve(), _SYSTEM) or _is_below(folder, _ALTERNATIVES)


def _is_below(path: Path | str, folder: Path | str) -> bool:
    """Return whether ``path`` is ``folder`` or below it; both absolute, links not resolved."""
    return f"{path}/".startswith(f"{str(folder).rstrip('/')}/")
