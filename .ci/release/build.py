"""Build a release: wheel, sdist, container image, bill of materials, provenance and checksums.

    python .ci/release/build.py dist                    # everything; needs a clean checkout and a container engine
    python .ci/release/build.py dist --without-image    # no image
    RELEASE_KEY=~/.ssh/id_ed25519 python .ci/release/build.py dist   # also signs SHA256SUMS (ssh-keygen -Y sign)

The wheel and the sdist are built twice and must be equal byte for byte. A failed step ends it with exit code 1 and the cause.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SIGNATURE_NAMESPACE = "gatewright-release"


class ReleaseError(Exception):
    """A step of the release failed; the message names it and what to do."""


def run(*words: str, environment: Mapping[str, str] | None = None) -> str:
    """Run a command in the checkout and return its output. Raises ReleaseError with its last lines."""
    try:
        done = subprocess.run(
            words, cwd=ROOT, env={**os.environ, **(environment or {})}, capture_output=True, text=True, check=False
        )
    except FileNotFoundError as error:
        raise ReleaseError(f"{words[0]} is not installed") from error
    if done.returncode:
        raise ReleaseError(f"{' '.join(words[:4])} failed:\n{(done.stderr or done.stdout)[-2000:]}")
    return done.stdout.strip()


def packages(folder: Path, epoch: str) -> list[Path]:
    """Build wheel and sdist. Raises ReleaseError if a second build differs."""
    with tempfile.TemporaryDirectory() as second:
        for place in (folder, Path(second)):
            built = (sys.executable, "-m", "hatchling", "build", "--directory", str(place))
            run(*built, environment={"SOURCE_DATE_EPOCH": epoch})
        files = sorted(path for path in folder.iterdir() if path.name.endswith((".whl", ".tar.gz")))
        differing = [path.name for path in files if path.read_bytes() != (Path(second) / path.name).read_bytes()]
    if differing:
        raise ReleaseError(f"a second build differs: {', '.join(differing)}")
    return files


def bill_of_materials(folder: Path, version: str) -> Path:
    """Write the locked packages of the product with their hashes, as CycloneDX 1.6."""
    path = folder / f"gatewright-{version}.cdx.json"
    words = ("-m", "cyclonedx_py", "requirements", "requirements.lock", "--pyproject", "pyproject.toml")
    form = ("--spec-version", "1.6", "--output-format", "JSON", "--output-reproducible", "--output-file", str(path))
    run(sys.executable, *words, *form)
    return path


def image(folder: Path, version: str, epoch: str) -> Path:
    """Build the container image and save it as an archive for `docker load`."""
    path, name = folder / f"gatewright-{version}-image.tar", f"gatewright:{version}"
    run("docker", "build", "--tag", name, ".", environment={"SOURCE_DATE_EPOCH": epoch})
    run("docker", "save", "--output", str(path), name)
    return path


def provenance(folder: Path, files: list[Path], commit: str, version: str) -> Path:
    """Write an in-toto statement with a SLSA provenance predicate over all files (https://slsa.dev/spec/v1.0/provenance)."""
    statement: dict[str, Any] = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": path.name, "digest": {"sha256": digest(path)}} for path in files],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:gatewright:release:1",
                "externalParameters": {"version": version},
                "resolvedDependencies": [
                    {"uri": "urn:gatewright:source", "digest": {"gitCommit": commit}},
                    *(
                        {"uri": f"urn:gatewright:{lock}", "digest": {"sha256": digest(ROOT / lock)}}
                        for lock in ("requirements.lock", ".ci/release/requirements.lock")
                    ),
                ],
            },
            "runDetails": {"builder": {"id": "urn:gatewright:make-release"}},
        },
    }
    path = folder / "provenance.intoto.json"
    path.write_text(json.dumps(statement, indent=2, sort_keys=True) + "\n", "utf-8")
    return path


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def checksums(folder: Path, files: list[Path]) -> None:
    """Write SHA256SUMS, and its signature if RELEASE_KEY names a key."""
    path = folder / "SHA256SUMS"
    path.write_text("".join(f"{digest(each)}  {each.name}\n" for each in files), "utf-8")
    if key := os.environ.get("RELEASE_KEY"):
        run("ssh-keygen", "-Y", "sign", "-n", SIGNATURE_NAMESPACE, "-f", key, str(path))


def build(folder: Path, *, without_image: bool) -> None:
    """Write all files of the release into ``folder``, which is emptied first. Raises ReleaseError."""
    if changed := run("git", "status", "--porcelain"):
        raise ReleaseError(f"the checkout has changes; commit or remove them:\n{changed}")
    commit, epoch = run("git", "log", "-1", "--format=%H %ct").split()
    version = run(sys.executable, "-m", "hatchling", "version")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    files = [*packages(folder, epoch), bill_of_materials(folder, version)]
    if not without_image:
        files.append(image(folder, version, epoch))
    files.append(provenance(folder, files, commit, version))
    checksums(folder, files)


def main() -> int:
    parser = argparse.ArgumentParser(description="Build a release into a folder.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--without-image", action="store_true", help="build no container image")
    given = parser.parse_args()
    folder = given.folder.resolve()
    try:
        build(folder, without_image=given.without_image)
    except ReleaseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print("\n".join(f"{path.stat().st_size:>12,}  {path}" for path in sorted(folder.iterdir())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
