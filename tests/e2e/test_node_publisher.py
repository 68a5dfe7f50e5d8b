"""A publisher that is not ours: Node.js with the NATS project's own client, and nothing but subjects and JSON."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "publish-node"

pytestmark = pytest.mark.skipif(shutil.which("npm") is None, reason="Node.js with npm is not installed on this machine")
