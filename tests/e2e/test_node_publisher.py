"""A publisher that is not ours: Node.js with the NATS project's own client, and nothing but subjects and JSON."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from gatewright.contracts import codec
from tests.e2e.conftest import MakeProject
from tests.e2e.stack import PREFIX, Stack

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "publish-node"

pytestmark = pytest.mark.skipif(shutil.which("npm") is None, reason="Node.js with npm is not installed on this machine")
