"""The memory of agents is told from that of what holds them, by the programs that run."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from benchmarks.agent_processes import agents_of, memory_of


def test_only_programs_from_the_installation_belong_to_the_agent(tmp_path: Path) -> None:
    installation = tmp_path / "installation"
    installation.mkdir()
    program = shutil.copy("/bin/sleep", installation / "agent")
    before = memory_of(os.getpid(), installation)
    assert before.ours > 0
    assert (before.agents, before.running) == (0, 0)
    shell = ["/bin/sh", "-c", 'read line; echo "$0"', str(program)]
    with subprocess.Popen([program, "1000"]) as agent, subprocess.Popen(shell, stdin=subprocess.PIPE) as wall:
        try:
            found = memory_of(os.getpid(), installation)
            assert agents_of(os.getpid(), installation) == found.running == 1
            assert found.agents > 0
        finally:
            agent.kill()
            wall.kill()
