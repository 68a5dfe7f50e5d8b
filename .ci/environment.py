"""Makes a virtual environment from locked requirements, with a line of progress; and tells which Python an environment is of.

    python3 environment.py FOLDER --lock FILE [--lock FILE] [--editable] [--size "about 420 MB"]
    python3 environment.py FOLDER --is-mine

The first makes FOLDER anew and installs the project itself into it. The second ends with 0 where FOLDER is not there, or was
made by the Python that runs this.
"""

import argparse
import os
import re
import subprocess
import sys
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Which Python made an environment.
MARK = ".python"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lock", type=Path, action="append", default=[])
    parser.add_argument("--editable", action="store_true")
    parser.add_argument("--size", default="")
    parser.add_argument("--is-mine", action="store_true")
    given = parser.parse_args()
    if given.is_mine:
        mark = given.folder / MARK
        return 0 if not mark.is_file() or mark.read_text("utf-8") == mine() else 1
    begun = time.monotonic()
    say(f"making {given.folder} with Python {sys.version.split()[0]}" + (f" ({given.size})" if given.size else ""))
    venv.EnvBuilder(clear=True, with_pip=True, symlinks=True).create(given.folder)
    python = given.folder / "bin" / "python"
    locks = [word for lock in given.lock for word in ("--requirement", str(lock))]
    if code := installed(python, ["--require-hashes", *locks], sum(map(packages, given.lock))):
        return code
    project = ["--no-build-isolation", "--no-deps", *(["--editable"] if given.editable else []), str(ROOT)]
    if code := installed(python, project, 0):
        return code
    # The rules that find secrets are compiled once, not by the first run.
    subprocess.run([python, "-P", "-m", "gatewright.secrets"], check=True, stdout=subprocess.DEVNULL)
    (given.folder / MARK).write_text(mine(), "utf-8")
    say(f"made {given.folder} in {time.monotonic() - begun:.0f} s")
    return 0


def mine() -> str:
    """This Python, as it is marked: an environment of another one, or of another version of it, is made anew."""
    return f"{sys.version.split()[0]} {os.path.realpath(sys.executable)}\n"


def packages(lock: Path) -> int:
    """How many packages a lock file names, whatever machine they are for."""
    return len(re.findall(r"^[a-z0-9][^\s=]*==", lock.read_text("utf-8"), re.MULTILINE | re.IGNORECASE))


def installed(python: Path, words: list[str], total: int) -> int:
    """Installs with pip, and shows how far it is; the exit code of pip, which says itself what was wrong."""
    command = [python, "-m", "pip", "--disable-pip-version-check", "install", "--progress-bar", "off", *words]
    environment = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYTHONHOME"}}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
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
    """A line that the next one takes the place of, on a terminal; elsewhere nothing: a log needs no progress."""
    if sys.stdout.isatty():
        sys.stdout.write(f"\r\x1b[2K{words}")
        sys.stdout.flush()


def say(words: str) -> None:
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
