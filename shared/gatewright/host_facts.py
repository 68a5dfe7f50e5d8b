"""A process's environment for its reports: versions of programs, the host, and the prefix that commands saw.

Facts for people who want to repeat the work. No decision uses them, and unknown ones are empty.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from gatewright.contracts.vocabulary import Interpreter, Surroundings
from gatewright.environment_state import EnvironmentSnapshot
from gatewright.errors import ConfigurationError
from gatewright.sandbox.environments import Environments, Shown, environments_of, read_record
from gatewright.sandbox.port import SOURCE_DATE_EPOCH
from gatewright.sandbox.system import environment as variables_inside
from gatewright.sandbox.system import fixed_variables
from gatewright.version import __version__

_PACKAGES = "lib/python*/site-packages"
_BLOCK = 1024 * 1024


@functools.cache
def git_version() -> str:
    """The version of git on PATH; empty where there is none."""
    try:
        return subprocess.run(["git", "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
    except (OSError, subprocess.CalledProcessError):
        return ""


def program_versions(**others: str) -> dict[str, str]:
    """Return program -> version for every role's programs, and for ``others`` of its own."""
    versions = {
        "gatewright": __version__,
        "python": platform.python_version(),
        "git": git_version(),
        "msgspec": msgspec.__version__,
        **others,
    }
    return {name: version for name, version in versions.items() if version}


def host() -> dict[str, str]:
    """System, kernel release and processor. Not the host's name: a bundle is given to strangers."""
    system = os.uname()
    return {"system": system.sysname, "release": system.release, "machine": system.machine}


def _variables(shown: Environments) -> tuple[str, ...] | None:
    """Return the names of the variables of commands; None for an invalid environment, in which no command runs."""
    try:
        return tuple(sorted(variables_inside(shown, home="", source_date_epoch=SOURCE_DATE_EPOCH, workspace="")))
    except ConfigurationError:
        return None


def surroundings(
    *,
    sandbox: Mapping[str, str] | None = None,
    prefix: Shown = None,
    versions: Mapping[str, str] | None = None,
    environment: EnvironmentSnapshot | None = None,
) -> Surroundings:
    """Return the surroundings for a role's report. Reads files and may run ``git --version``: not for an event loop.

    ``prefix`` is from the operator's list, never only from a contract; ``environment`` is its content at that time.
    """
    shown = environments_of(prefix)
    prefixes, image = shown.prefixes, shown.image
    interpreters = (found for found in map(interpreter, prefixes) if found is not None)
    return Surroundings(
        versions=program_versions(**{**(versions or {}), **_prepared_facts(prefixes)}),
        host=host(),
        sandbox=dict(sandbox) if sandbox is not None else None,
        interpreter=next(interpreters, None),
        environment=environment.document() if environment is not None else None,
        image=image.record.image if image is not None else None,
        fixed=fixed_variables(SOURCE_DATE_EPOCH) if sandbox is not None else None,
        variables=_variables(shown) if sandbox is not None else None,
    )


def _prepared_facts(prefixes: Sequence[Path]) -> dict[str, str]:
    """Return tools and sources of environments made for a baseline, with digests; nothing for any other."""
    environments = []
    for record in map(read_record, prefixes):
        if record is not None:
            digests = {**record.sources, **record.results}
            files = (f"{name} sha256:{digest}" for name, digest in digests.items())
            environments.append(", ".join((f"{record.tool} ({record.installs})", *files)))
    return {"environment": "; ".join(environments)} if environments else {}


def interpreter(prefix: Path) -> Interpreter | None:
    """Return the facts that pin the environment ``prefix``; None without a readable ``bin/python``.

    The interpreter's bytes are read once while the file stays unchanged; the list of packages is read every time.
    """
    program = prefix / "bin" / "python"
    try:
        facts = program.stat()
        digest = _digest_program(program, (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns))
    except OSError:
        return None
    names = sorted(found.name for place in sorted(prefix.glob(_PACKAGES)) for found in place.glob("*.dist-info"))
    listing = "".join(f"{name.removesuffix('.dist-info')}\n" for name in names)
    return Interpreter(
        prefix=str(prefix),
        version=_version(prefix),
        sha256=digest,
        packages_sha256=hashlib.sha256(listing.encode("utf-8", "surrogateescape")).hexdigest(),
    )


@functools.lru_cache(maxsize=64)
def _digest_program(program: Path, _facts: tuple[int, ...]) -> str:
    digest = hashlib.sha256()
    with program.open("rb", buffering=0) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _version(prefix: Path) -> str:
    """Return the version in ``pyvenv.cfg``: the interpreter of a prefix never runs outside the sandbox."""
    try:
        lines = (prefix / "pyvenv.cfg").read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    pairs = (line.partition("=") for line in lines)
    return next((value.strip() for key, _, value in pairs if key.strip() in {"version", "version_info"}), "")
