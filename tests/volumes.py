"""Commands that see a small volume in the place of a folder: a real tmpfs in a mount namespace of theirs, made by bubblewrap.

No root is needed, and nothing of it stays.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from gatewright.sandbox.binary import find_bwrap

ROOT = Path(__file__).resolve().parent.parent


def on_volume(mount: Path, size: int, *argv: str | Path, seconds: float = 240.0) -> subprocess.CompletedProcess[str]:
    """Run ``argv`` to its end with a volume of ``size`` bytes at ``mount``, which is made and stays empty outside."""
    mount.mkdir()
    namespace: list[str | Path] = [
        find_bwrap().path,
        "--dev-bind",
        "/",
        "/",
        "--size",
        str(size),
        "--tmpfs",
        mount,
        "--die-with-parent",
        "--",
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "shared")))}
    return subprocess.run(
        [*namespace, *argv], cwd=ROOT, env=environment, check=False, capture_output=True, text=True, timeout=seconds
    )
