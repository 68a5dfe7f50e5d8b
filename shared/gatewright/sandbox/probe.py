"""A check, by running commands, that the sandbox works here and confines them.

A failed check makes the sandbox unavailable: a role that would run commands in it refuses to. The report names the cause,
with advice for operators.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gatewright.errors import GatewrightError, SandboxError
from gatewright.sandbox.account import SandboxAccount
from gatewright.sandbox.binary import find_bwrap
from gatewright.sandbox.limits import SandboxLimits
from gatewright.sandbox.port import Completed, Sandbox, SandboxReport
from gatewright.sandbox.syscalls import seccomp_filter

_LIMITS: Final = SandboxLimits(wall_seconds=20, memory_bytes=256 << 20, processes=12, file_bytes=1 << 20, output_bytes=1 << 16)

#: One check per line; a good sandbox prints the answers below. The forks come last: they end the shell.
_SCRIPT: Final = """
tail -n +3 /proc/net/dev | grep -c -v '^ *lo:'
if unshare --user true 2>/dev/null; then echo made; else echo refused; fi
if (: >/usr/written) 2>/dev/null; then echo written; else echo refused; fi
if (: >written) 2>/dev/null; then echo written; else echo refused; fi
if (head -c 2097152 /dev/zero >large) 2>/dev/null; then echo written; else echo refused; fi
i=0; while [ $i -lt 24 ]; do sleep 5 & i=$((i+1)); done; echo forked
"""
_EXPECTED: Final = (
    ("other networks", "0"),
    ("nested user namespaces", "refused"),
    ("writing to the system", "refused"),
    ("writing to the workspace", "written"),
    ("files above the limit", "refused"),
)


@dataclass(frozen=True, slots=True)
class _InMemory:
    """A working folder for one probe that leaves nothing on the host; ``lower`` makes it an overlay of that."""

    lower: str = ""
    path_inside: str = "/workspace"

    @property
    def mounts(self) -> tuple[str, ...]:
        if self.lower:
            return ("--overlay-src", self.lower, "--tmp-overlay", self.path_inside)
        return ("--size", str(_LIMITS.tmp_bytes), "--tmpfs", self.path_inside)

    @property
    def sources(self) -> tuple[Path, ...]:
        return ()

    @property
    def path(self) -> Path | None:
        return None

    def has_room(self, place: str) -> bool:
        """Return False: nothing is mounted in it."""
        del place
        return False

    @property
    def scratch(self) -> Path:
        raise SandboxError("a place in memory has no folder on the host")


async def probe_bubblewrap(sandbox: Sandbox, account: SandboxAccount) -> SandboxReport:
    """Run the questions in ``sandbox``; ``account`` is who it runs commands as."""
    facts = {"sandbox": "bubblewrap"}
    try:
        bwrap = find_bwrap()
        facts["bwrap"] = str(bwrap.path)
        facts["version"] = ".".join(map(str, bwrap.version))
        facts["account"] = f"uid {account.uid}" + (", because the service runs as root" if account.switched else "")
        facts["seccomp"] = "on" if seccomp_filter() is not None else "no filter for this processor"
        completed = await sandbox.run(("/bin/sh", "-c", _SCRIPT), workspace=_InMemory(), prefix=None, limits=_LIMITS)
        facts["user namespaces"] = "made"
        facts["overlay"] = await _try_overlay(sandbox) if bwrap.overlay else "this bubblewrap is too old for it"
    except (GatewrightError, OSError) as error:
        return SandboxReport(available=False, cause=str(error), facts=facts)
    return _judge(completed, facts)


async def _try_overlay(sandbox: Sandbox) -> str:
    """Return ``mounted``, or the reason; without overlays workspaces are copies, with no other disadvantage."""
    refusals = []
    # In a container the system is on an overlay, which cannot be a layer of another; the temporary folder may be unreadable.
    for lower in (tempfile.gettempdir(), "/usr"):
        try:
            completed = await sandbox.run(("touch", "new"), workspace=_InMemory(lower), prefix=None, limits=_LIMITS)
        except SandboxError as error:
            refusals.append(error.message)
            continue
        if completed.exit_code == 0:
            return "mounted"
        refusals.append(completed.stderr.decode("utf-8", "replace").strip())
    return refusals[0]


def _judge(completed: Completed, facts: dict[str, str]) -> SandboxReport:
    answers = completed.stdout.decode("utf-8", "replace").split()
    if len(answers) < len(_EXPECTED):
        words = completed.stderr.decode("utf-8", "replace").strip()
        return SandboxReport(available=False, cause=f"the probe's command did not answer: {words}", facts=facts)
    holes = []
    for (name, good), answer in zip(_EXPECTED, answers, strict=False):
        facts[name] = answer
        if answer != good:
            holes.append(f"{name}: {answer}, not {good}")
    facts["processes above the limit"] = "made" if "forked" in answers else "refused"
    if "forked" in answers:
        holes.append("processes above the limit can be made")
    cause = f"the sandbox does not hold ({'; '.join(holes)})" if holes else ""
    return SandboxReport(available=not holes, cause=cause, facts=facts)
