"""Virtual environments: a fresh one with the pip bundled with its Python, and another one with the packages of an existing one.

``venv`` would start that pip, from its archive, to install itself. It is unpacked instead, which is equivalent. Unpacking and
compiling still take most of the time for a small environment, so one with pip alone is kept for each interpreter, and copied.
Nothing is downloaded. No package runs, and no link is followed.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from gatewright.app.environments.errors import NotPreparedError
from gatewright.app.environments.interpreters import Python
from gatewright.app.environments.plan import EnvironmentPlan, Made, is_whole, made_once
from gatewright.app.environments.project_record import record_line
from gatewright.app.environments.tool import run_tool
from gatewright.sandbox.environments import PREPARED

#: Run by the environment's own interpreter while it is empty, with ``Python.wheels`` as arguments. Before 3.12 an environment
#: has setuptools too, as with ``venv``.
UNPACK = """
import base64, compileall, glob, hashlib, os, sys, sysconfig, zipfile
try:
    import ensurepip
except ImportError:
    sys.exit("this Python has no ensurepip: install what it needs to make environments (python3-venv), or give --env DIR")
for name in ("pip",) if sys.version_info >= (3, 12) else ("pip", "setuptools"):
    wheels = [each for each in sys.argv[1:] if os.path.basename(each).startswith(name + "-")]
    if not wheels:
        sys.exit("this Python has ensurepip, and no wheel of " + name + " with it: give --env DIR")
    newest = [each for each in wheels if os.path.dirname(each) == os.path.dirname(wheels[0])][-1]
    with zipfile.ZipFile(newest) as wheel:
        wheel.extractall(sysconfig.get_path("purelib"))
for name in ("pip", "pip3", "pip%d.%d" % sys.version_info[:2]):
    place = os.path.join(sysconfig.get_path("scripts"), name)
    text = "#!" + sys.executable + "\\nimport sys\\nfrom pip._internal.cli.main import main\\nsys.exit(main())\\n"
    with open(place, "w", encoding="utf-8") as script:
        script.write(text)
    digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
    os.chmod(place, 0o755)
    for record in glob.glob(os.path.join(glob.escape(sysconfig.get_path("purelib")), "pip-*.dist-info", "RECORD")):
        with open(record, "a", encoding="utf-8") as lines:
            lines.write("../../../bin/%s,sha256=%s,%d\\n" % (name, digest, len(text.encode())))
compileall.compile_dir(os.path.join(sysconfig.get_path("purelib"), "pip"), quiet=2)
"""
#: Increase this with every change of the result for the same wheels.
_VERSION: Final = 1


async def fresh_environment(prefix: Path, python: Python, environment: Mapping[str, str]) -> tuple[tuple[str, ...], str]:
    """Create a virtual environment with only pip, beside the kept one; return the words that start its pip, and its version.

    Raises NotPreparedError.
    """
    sources = {"pip": await asyncio.to_thread(_digest, python.wheels)}
    build = partial(_unpack, python=python, environment=environment)
    plan = EnvironmentPlan("python", sources, (_VERSION, python.version, python.program), "pip alone", build, silent=True)
    base = await made_once(prefix.parents[1], plan, lambda _: None)
    await asyncio.to_thread(copy_environment, base, prefix)
    if not is_whole(base):
        raise NotPreparedError(f"{base} was removed while it was used: run it again")
    return (str(prefix / "bin" / "python"), "-I", "-m", "pip"), await asyncio.to_thread(_make_readable, prefix)


async def _unpack(prefix: Path, *, python: Python, environment: Mapping[str, str]) -> Made:
    """Make the kept environment. Only such an empty one is run on this host: packages could run code at the start."""
    with tempfile.TemporaryDirectory(prefix="gatewright-env-") as name:
        place = Path(name)
        (place / "unpack_pip.py").write_text(UNPACK, "utf-8")
        own = (str(prefix / "bin" / "python"), "-I", "unpack_pip.py", *python.wheels)
        for words in ((python.program, "-I", "-m", "venv", "--without-pip", str(prefix)), own):
            await run_tool(words, folder=place, environment=environment)
    return Made(await asyncio.to_thread(_make_readable, prefix))


def _digest(wheels: Sequence[str]) -> str:
    return hashlib.sha256(b"".join(Path(each).read_bytes() for each in wheels)).hexdigest()


def _make_readable(prefix: Path) -> str:
    """Make a fresh environment readable for the account that commands run as; which pip it has."""
    prefix.chmod(0o755)
    found = next((found.name for found in prefix.glob("lib/python*/site-packages/pip-*.dist-info")), "pip")
    return found.removesuffix(".dist-info").replace("-", " ")


#: Scripts and settings that name their environment are small.
_MOST_BYTES = 1024 * 1024


def link_environment(base: Path, prefix: Path) -> None:
    """Fill the empty folder ``prefix`` with what ``base`` holds, by hard links. Blocks. Raises OSError.

    A new version of a project thus costs no installation and little disk space.
    """
    _repeat_environment(base, prefix, _link)


def copy_environment(base: Path, prefix: Path) -> None:
    """Fill the empty folder ``prefix`` with copies of what ``base`` holds. Blocks. Raises OSError.

    Packages may still write into it, and a hard link would change ``base``. Modules keep their times, and compiled forms.
    """
    _repeat_environment(base, prefix, shutil.copy2)


def _repeat_environment(base: Path, prefix: Path, repeat: Callable[[Path, Path], object]) -> None:
    own, other = os.fsencode(base), os.fsencode(prefix)
    moved: dict[str, str] = {}
    for folder, names, files in os.walk(base):
        inside = Path(folder).relative_to(base)
        for name in (*names, *files):
            source, target = base / inside / name, prefix / inside / name
            if source.is_symlink():
                target.symlink_to(os.fsdecode(os.fsencode(source.readlink()).replace(own, other)))
            elif source.is_dir():
                target.mkdir(mode=0o755)
                target.chmod(0o755)
            elif _write_moved(source, target, own, other, packaged=inside.parts[:1] == ("lib",)):
                path = f"../../../{inside / name}"
                moved[path] = record_line(path, target.read_bytes())
            else:
                repeat(source, target)
    for record in prefix.glob("lib/python*/site-packages/*.dist-info/RECORD"):
        _record_moved(record, moved)
    (prefix / PREPARED).unlink(missing_ok=True)  # it is not finished


def _record_moved(record: Path, moved: Mapping[str, str]) -> None:
    """Replace the lines of scripts in the list of files of their package."""
    lines = record.read_text("utf-8", "surrogateescape").splitlines(keepends=True)
    changed = [moved.get(line.partition(",")[0], line) for line in lines]
    if changed != lines:
        record.unlink()  # the other environment's file
        record.write_text("".join(changed), "utf-8", "surrogateescape")


def _write_moved(source: Path, target: Path, own: bytes, other: bytes, *, packaged: bool) -> bool:
    """Rewrite ``source`` if it names its environment, and return whether it did; files of packages never do."""
    if packaged or source.stat().st_size > _MOST_BYTES:
        return False
    content = source.read_bytes()
    if own not in content:
        return False
    target.write_bytes(content.replace(own, other))
    shutil.copymode(source, target)
    return True


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        # A file system without hard links, or too many of one file.
        shutil.copy2(source, target, follow_symlinks=False)
