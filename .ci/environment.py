"""Create a virtual environment from locked requirements, and check which Python created it.

    python3 environment.py FOLDER --lock FILE [--lock FILE] [--editable] [--lean] [--compile] [--size "about 350 MB"]
    python3 environment.py FOLDER --is-mine

The first form replaces FOLDER and installs the project into it. With --lean, FOLDER has no pip, and Python compiles modules on
first import. With --compile, the script compiles the modules of the product, for users without write access to FOLDER. The
second form exits with 0 if FOLDER does not exist, or if the Python that runs this script created it.
"""

import argparse
import ensurepip
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: The file that records which Python created an environment.
MARK = ".python"
#: Skips modules that cannot be imported: reporters need the pytest of the tested project.
COMPILE = """
import contextlib, importlib, pkgutil, gatewright
for module in pkgutil.walk_packages(gatewright.__path__, "gatewright."):
    if not module.name.endswith("__main__"):
        with contextlib.suppress(ImportError):
            importlib.import_module(module.name)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lock", type=Path, action="append", default=[])
    parser.add_argument("--editable", action="store_true")
    parser.add_argument("--lean", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--size", default="")
    parser.add_argument("--is-mine", action="store_true")
    given = parser.parse_args()
    if given.is_mine:
        mark = given.folder / MARK
        return 0 if not mark.is_file() or mark.read_text("utf-8") == mine() else 1
    begun = time.monotonic()
    write_line(f"making {given.folder} with Python {sys.version.split()[0]}" + (f" ({given.size})" if given.size else ""))
    venv.EnvBuilder(clear=True, with_pip=not given.lean, symlinks=True).create(given.folder)
    python = given.folder / "bin" / "python"
    locks = [word for lock in given.lock for word in ("--requirement", str(lock))]
    project = ["--no-build-isolation", "--no-deps", *(["--editable"] if given.editable else []), str(ROOT)]
    with tempfile.TemporaryDirectory() as place:
        pip = [python, "-m", "pip"] if not given.lean else [python, str(unpacked_pip(Path(place)))]
        lean = ["--no-compile"] if given.lean else []
        if code := installed(pip, [*lean, "--require-hashes", *locks], sum(map(packages, given.lock))):
            return code
        if code := installed(pip, [*lean, *project], 0):
            return code
    if given.compile:
        subprocess.run([python, "-P", "-c", COMPILE], check=True)
    # Compile the rules that detect secrets now, so that the first run need not.
    subprocess.run([python, "-P", "-m", "gatewright.secrets"], check=True, stdout=subprocess.DEVNULL)
    (given.folder / MARK).write_text(mine(), "utf-8")
    write_line(f"made {given.folder} in {time.monotonic() - begun:.0f} s")
    return 0


def mine() -> str:
    """Return the identity of this Python: version and path."""
    return f"{sys.version.split()[0]} {os.path.realpath(sys.executable)}\n"


def packages(lock: Path) -> int:
    """Count the packages of a lock file, for all platforms."""
    return len(re.findall(r"^[a-z0-9][^\s=]*==", lock.read_text("utf-8"), re.MULTILINE | re.IGNORECASE))


def unpacked_pip(place: Path) -> Path:
    """Unpack the pip bundled with this Python into ``place`` and return the folder of its package, which Python can run."""
    folders = (sysconfig.get_config_var("WHEEL_PKG_DIR"), Path(ensurepip.__file__).parent / "_bundled")
    wheels = [wheel for folder in folders if folder for wheel in sorted(Path(folder).glob("pip-*.whl"))]
    with zipfile.ZipFile(wheels[0]) as wheel:
        wheel.extractall(place)
    return place / "pip"


def installed(pip: list[str | Path], words: list[str], total: int) -> int:
    """Install with pip, show progress, and return the exit code of pip, which prints its own errors."""
    command = [*pip, "--disable-pip-version-check", "install", "--progress-bar", "off", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        count = 0
        for line in process.stdout or ():
            if line.startswith("Collecting ") and total:
                count += 1
                show(f"  fetching {min(count, total)} of at most {total} packages")
            elif line.startswith("Installing collected"):
                show("  installing them")
        code = process.wait()
    if sys.stdout.isatty():
        show("")
    return code


def show(words: str) -> None:
    """Show a progress line on a terminal; the next one replaces it."""
    if sys.stdout.isatty():
        sys.stdout.write(f"\r\x1b[2K{words}")
        sys.stdout.flush()


def write_line(words: str) -> None:
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
