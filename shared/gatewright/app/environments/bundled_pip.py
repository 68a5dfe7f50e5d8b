"""Unpacking of the pip bundled with a Python into a fresh virtual environment, which is equivalent to installing it.

``venv`` would start that pip, from its archive, to install itself, and compile all of it: most of the time for a small
environment. Here only the used parts are compiled. Nothing is downloaded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from gatewright.app.environments.tool import run_tool

#: Run by the environment's own interpreter while it is empty. Before 3.12 an environment has setuptools too, as with
#: ``venv``. ``WHEEL_PKG_DIR`` is where distributions keep these wheels.
UNPACK = """
import base64, glob, hashlib, os, sys, sysconfig, zipfile
try:
    import ensurepip
except ImportError:
    sys.exit("this Python has no ensurepip: install what it needs to make environments (python3-venv), or give --env DIR")
folders = (sysconfig.get_config_var("WHEEL_PKG_DIR"), os.path.join(ensurepip.__path__[0], "_bundled"))
for name in ("pip",) if sys.version_info >= (3, 12) else ("pip", "setuptools"):
    for folder in filter(None, folders):
        wheels = sorted(glob.glob(os.path.join(glob.escape(folder), name + "-*.whl")))
        if wheels:
            with zipfile.ZipFile(wheels[-1]) as wheel:
                wheel.extractall(sysconfig.get_path("purelib"))
            break
    else:
        sys.exit("this Python has ensurepip, and no wheel of " + name + " with it: give --env DIR")
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
"""


async def fresh_environment(
    prefix: Path, program: str, place: Path, environment: Mapping[str, str]
) -> tuple[tuple[str, ...], str]:
    """Create a virtual environment with only pip; return the words that start its pip, and pip's version.

    Its interpreter runs on this host only while it is empty: packages could run code at its start. ``place`` is a folder for
    scratch files. Raises NotPreparedError.
    """
    own = (str(prefix / "bin" / "python"), "-I")
    (place / "unpack_pip.py").write_text(UNPACK, "utf-8")
    for words in ((program, "-I", "-m", "venv", "--without-pip", str(prefix)), (*own, "unpack_pip.py")):
        await run_tool(words, folder=place, environment=environment)
    return (*own, "-m", "pip"), await asyncio.to_thread(_make_readable, prefix)


def _make_readable(prefix: Path) -> str:
    """Make a fresh environment readable for the account that commands run as; which pip it has."""
    prefix.chmod(0o755)
    found = next((found.name for found in prefix.glob("lib/python*/site-packages/pip-*.dist-info")), "pip")
    return found.removesuffix(".dist-info").replace("-", " ")
