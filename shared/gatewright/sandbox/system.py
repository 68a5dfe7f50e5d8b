"""The read-only system that every command sees, and its environment variables: nothing of the host's user.

The programs are the host's (/usr and what belongs to it). /etc is synthetic: the host's accounts, host names and
configuration are not visible inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gatewright.sandbox.environments import Environments, read_record
from gatewright.sandbox.images import ImageRoot, held_in, top_mounts

#: The only user inside.
USER_ID: Final = 1000

#: Made-up files. The name server has a reserved address (RFC 5737) without a route: lookups increment the counter of attempts.
ETC: Final[Mapping[str, bytes]] = {
    "/etc/passwd": (
        b"sandbox:x:1000:1000:sandbox:/tmp/home:/bin/sh\nroot:x:0:0:root:/nonexistent:/usr/sbin/nologin\n"
        b"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    ),
    "/etc/group": b"sandbox:x:1000:\nroot:x:0:\nnogroup:x:65534:\n",
    "/etc/hosts": b"127.0.0.1 localhost sandbox\n::1 localhost\n",
    "/etc/nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n",
    "/etc/resolv.conf": b"nameserver 192.0.2.1\noptions timeout:1 attempts:1\n",
    "/etc/hostname": b"sandbox\n",
}

#: From the host's /etc: the linker's cache, and the links of distributions between a program's name and its file.
_HOST_ETC: Final = ("/etc/ld.so.cache", "/etc/alternatives")
#: And configuration without which a program does not start: the extensions that PHP loads, the layout of Java and Maven. No
#: settings in which people keep credentials (php.ini, settings.xml, net.properties).
_HOST_ETC_OF_PROGRAMS: Final = (
    "java-*-openjdk/security",
    "java-*-openjdk/jvm-*.cfg",
    "java-*-openjdk/logging.properties",
    "maven/m2.conf",
    "maven/logging",
    "php/*/mods-available",
    "php/*/cli/conf.d",
)
_TOP: Final = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
#: The search path for programs, after the environment's own.
PATH: Final = "/usr/local/bin:/usr/bin:/bin"


def system_mounts() -> tuple[str, ...]:
    """Bubblewrap arguments for the programs and libraries of the host, read-only."""
    arguments = ["--ro-bind", "/usr", "/usr"]
    for name in _TOP:
        place = Path("/", name)
        if place.is_symlink():
            arguments += ["--symlink", str(place.readlink()), str(place)]
        elif place.is_dir():
            arguments += ["--ro-bind", str(place), str(place)]
    arguments += ["--perms", "0755", "--dir", "/etc"]
    for file in _HOST_ETC:
        arguments += ["--ro-bind-try", file, file]
    for place in (place for pattern in _HOST_ETC_OF_PROGRAMS for place in sorted(Path("/etc").glob(pattern))):
        arguments += _at(place, place)
    return tuple(arguments)


def image_mounts(image: ImageRoot) -> tuple[str, ...]:
    """Return the mounts of an image's programs and libraries, without the host's. Raises ConfigurationError."""
    arguments = [*top_mounts(image.files), "--perms", "0755", "--dir", "/etc"]
    etc = image.files / "etc"
    named = [image.files / file.lstrip("/") for file in _HOST_ETC]
    named += (place for pattern in _HOST_ETC_OF_PROGRAMS for place in sorted(etc.glob(pattern)))
    for place in named:
        if place.exists():
            arguments += _at(held_in(image.files, place), Path("/", place.relative_to(image.files)))
    return tuple(arguments)


def _at(source: Path, place: Path) -> list[str]:
    above = [word for folder in reversed(place.parents[:-2]) for word in ("--perms", "0755", "--dir", str(folder))]
    return [*above, "--ro-bind-try", str(source), str(place)]


def fixed_variables(source_date_epoch: int) -> dict[str, str]:
    """The clock of builds, the locale, the time zone and the seed: the same for every command, so that it can be repeated."""
    return {"LANG": "C.UTF-8", "TZ": "UTC", "SOURCE_DATE_EPOCH": str(source_date_epoch), "PYTHONHASHSEED": "0"}


#: Caches of checkers that would otherwise be in the workspace. Not caches of builds: they would fill /tmp, which is memory,
#: and tools would not find what an environment provides. Not coverage data: the next command reads it.
_CACHES: Final[Mapping[str, str]] = {
    "MYPY_CACHE_DIR": "/tmp/cache/mypy",  # noqa: S108 - inside, where /tmp is private
    "RUFF_CACHE_DIR": "/tmp/cache/ruff",  # noqa: S108
    "HYPOTHESIS_STORAGE_DIRECTORY": "/tmp/cache/hypothesis",  # noqa: S108
    "NUMBA_CACHE_DIR": "/tmp/cache/numba",  # noqa: S108
}


def environment(shown: Environments, *, home: str, source_date_epoch: int, workspace: str) -> dict[str, str]:
    """Return all variables of a command; programs of ``shown`` come first, those of packages last."""
    system = ":".join(shown.image.path) if shown.image is not None else PATH
    variables = {
        **(shown.image.variables if shown.image is not None else {}),
        "PATH": ":".join((*(str(prefix / "bin") for prefix in shown.prefixes), system, *shown.program_folders(workspace))),
        "HOME": home,
        "CI": "true",
        "PYTHONDONTWRITEBYTECODE": "1",
        **_CACHES,
        **fixed_variables(source_date_epoch),
    }
    virtual = next((prefix for prefix in shown.prefixes if (prefix / "pyvenv.cfg").is_file()), None)
    if virtual is not None:
        variables["VIRTUAL_ENV"] = str(virtual)
        # uv would make a separate environment in the workspace, without the packages of this one.
        variables |= {"UV_PROJECT_ENVIRONMENT": str(virtual), "UV_NO_SYNC": "1", "UV_OFFLINE": "1"}
    for prefix in shown.prefixes:
        record = read_record(prefix)
        variables |= record.variables(prefix) if record is not None else {}
    return variables
