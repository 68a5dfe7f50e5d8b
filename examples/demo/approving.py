"""A run that waits for human approval before it lands. The script acts as the approver, with a key that it creates.

The operator's policies define the approval rule and the approvers (``docs/approvals.md``). A second process sends the approval
while the run waits, as from another terminal.
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
#: Seconds to wait for the approval request.
PATIENCE = 120.0


@dataclass(frozen=True)
class Approving:
    """A run with an approval. It owns ``folder``; ``prefix`` is the environment of its tests."""

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
        """Start the run, approve its request, and verify the evidence. Raises SystemExit if a step fails."""
        self._prepare()
        project, patch = self.folder / "greeter", self.folder / "greeter.patch"
        order = ["run", REQUEST, "--allow", "greeter.py", "--test", "python -m unittest -q test_greeter"]
        words = [*order, "--env", str(self.prefix), "--patch", str(patch)]
        self._print_command(words)
        with subprocess.Popen([*GATEWRIGHT, *words], cwd=project, env=self._environment) as process:
            try:
                self._answer(self._question(process))
                code = process.wait()
            except BaseException:
                # Interrupted, or no request: the command aborts its run and stops its processes.
                process.terminate()
                process.wait()
                raise
        if code != 0:
            raise SystemExit(f"the approved run failed: exit {code}")
        self.console.rule("the evidence names the approver; verified offline")
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
        """Return the id of the run once it waits for approval."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and process.poll() is None:
            waiting = self._ask("approvals", "list", "--json").get("approvals", [])
            if waiting:
                return str(waiting[0]["request"]["run_id"])
            time.sleep(0.2)
        raise SystemExit("the run requested no approval")

    def _answer(self, run_id: str) -> None:
        notice = "The run waits. As from another terminal, the script approves it with its own key:"
        self.console.print(f"\n{notice}", soft_wrap=True)
        words = ["approvals", "approve", run_id, "--as", PERSON, "--key", str(self._key), "--phrase", PHRASE]
        self._print_command(words)
        if subprocess.run([*GATEWRIGHT, *words], cwd=self.folder, env=self._environment, check=False).returncode != 0:
            raise SystemExit("the approval was refused")

    def _ask(self, *words: str) -> dict[str, Any]:
        """Return the JSON output of a command; empty if it fails, for example while no stack runs."""
        folder, env = self.folder / "greeter", self._environment
        done = subprocess.run([*GATEWRIGHT, *words], cwd=folder, env=env, check=False, capture_output=True, text=True)
        answer: dict[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {}
        return answer

    def _print_command(self, words: list[str]) -> None:
        self.console.print("$ gatewright " + shlex.join(words), style="bold", markup=False, soft_wrap=True)
