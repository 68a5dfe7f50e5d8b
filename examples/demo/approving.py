"""A run that waits for a person before it lands. Here this script is the person: it makes a key, and answers with it.

The rule and the roster are policies of the operator (``docs/approvals.md``); the answer goes in from a second process, as from
another terminal, while the run is parked.
"""

from __future__ import annotations

import difflib
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from recording import CHANGED, GREETER, REQUEST, make_project
from rich.console import Console

from gatewright.resources import policy_directory

GATEWRIGHT = [sys.executable, "-m", "gatewright.app.cli.main"]
PERSON = "demo-script"
PHRASE = "land the greeter"
RULE = {
    "name": "landing",
    "reason": "landing",
    "risk": "high",
    "approvers": [PERSON],
    "within_seconds": 3600,
    "phrase": PHRASE,
}
#: Seconds after which a question that never comes is given up.
PATIENCE = 120.0


@dataclass(frozen=True)
class Approving:
    """``folder`` is all its own; ``prefix`` the environment of the tests."""

    folder: Path
    prefix: Path
    console: Console

    @property
    def _key(self) -> Path:
        return self.folder / "demo-key.pem"

    @property
    def _environment(self) -> Mapping[str, str]:
        own = {"GATEWRIGHT_HOME": str(self.folder / "home"), "GATEWRIGHT_POLICIES": str(self.folder / "policies")}
        return {**os.environ, **own}

    def play(self) -> None:
        """Order, wait until it is asked, answer, and check the evidence. Raises SystemExit where anything else comes of it."""
        self._prepare()
        project, patch = self.folder / "greeter", self.folder / "greeter.patch"
        asked_for = ["run", REQUEST, "--allow", "greeter.py", "--test", "python -m unittest -q test_greeter"]
        words = [*asked_for, "--env", str(self.prefix), "--patch", str(patch)]
        self._print_command(words)
        with subprocess.Popen([*GATEWRIGHT, *words], cwd=project, env=self._environment) as process:
            try:
                self._answer(self._question(process))
                code = process.wait()
            except BaseException:
                # Interrupted, or not asked: the command aborts its run and stops what it started.
                process.terminate()
                process.wait()
                raise
        if code != 0:
            raise SystemExit(f"the run that was approved did not succeed: exit {code}")
        self.console.rule("its evidence says who said yes; checked offline")
        if subprocess.run([*GATEWRIGHT, "verify"], cwd=project, env=self._environment, check=False).returncode != 0:
            raise SystemExit("the bundle does not verify")

    def _prepare(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        make_project(self.folder / "greeter")
        before, after = GREETER.splitlines(keepends=True), CHANGED.splitlines(keepends=True)
        patch = difflib.unified_diff(before, after, "a/greeter.py", "b/greeter.py")
        (self.folder / "greeter.patch").write_text("".join(patch))
        key = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        self._key.touch(0o600)
        self._key.write_bytes(key)
        people = [{"name": PERSON, "keys": [{"key": self._ask("approvals", "key", str(self._key), "--json")["key"]}]}]
        policies = self.folder / "policies"
        shutil.copytree(policy_directory(), policies)
        (policies / "approval_rules.json").write_text(json.dumps({"version": "1", "rules": [RULE]}))
        (policies / "approvers.json").write_text(json.dumps({"version": "1", "people": people}))

    def _question(self, process: subprocess.Popen[bytes]) -> str:
        """The run that is asked about, once it is parked."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and process.poll() is None:
            waiting = self._ask("approvals", "list", "--json").get("approvals", [])
            if waiting:
                return str(waiting[0]["request"]["run_id"])
            time.sleep(0.2)
        raise SystemExit("the run never asked for its approval")

    def _answer(self, run_id: str) -> None:
        notice = "the run is parked. As from another terminal, this script answers, with a key that it made:"
        self.console.print(f"\n{notice}", soft_wrap=True)
        words = ["approvals", "approve", run_id, "--as", PERSON, "--key", str(self._key), "--phrase", PHRASE]
        self._print_command(words)
        if subprocess.run([*GATEWRIGHT, *words], cwd=self.folder, env=self._environment, check=False).returncode != 0:
            raise SystemExit("the approval was refused")

    def _ask(self, *words: str) -> dict[str, Any]:
        """What a command answers as JSON; nothing while there is no stack that could."""
        place, env = self.folder / "greeter", self._environment
        asked = subprocess.run([*GATEWRIGHT, *words], cwd=place, env=env, check=False, capture_output=True, text=True)
        answer: dict[str, Any] = json.loads(asked.stdout) if asked.returncode == 0 else {}
        return answer

    def _print_command(self, words: list[str]) -> None:
        self.console.print("$ gatewright " + shlex.join(words), style="bold", markup=False, soft_wrap=True)
