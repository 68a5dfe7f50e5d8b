"""The same change ordered of several real agents at once."""

from __future__ import annotations

import json
from pathlib import Path

from tests.agents.conftest import EDIT_CHECK, AgentStack, processes_of_agents
from tests.git.repositories import Repository

CANDIDATES = "codex=openai-change,claude=anthropic-small,codex=openai-stray"


def test_the_smallest_in_scope_candidate_of_several_agents_lands(agents: AgentStack, project: Path) -> None:
    order = ("--allow", "src", "--test", EDIT_CHECK, "--max-retries", "0", "--candidates", CANDIDATES)
    code, result = agents.run(project, *order)
    assert (code, result["status"], result["failure"]) == (0, "SUCCESS", None)
    repository = Repository(project, project.parent / "home")
    assert repository.git("show", f"{result['branch']}:src/a.py") == b"a = 1\nedited = True\n"
    assert b"src/new.py" not in repository.git("ls-tree", "-r", "--name-only", result["branch"])
    shown = json.loads(agents.process("show", result["run_id"], "--json").stdout)
    outcomes = {each["candidate"]: each["outcome"] for each in shown["candidates"]}
    assert outcomes == {1: "passed", 2: "passed", 3: "path_out_of_scope"}
    assert [each["candidate"] for each in shown["candidates"] if each["chosen"]] == [2]
    said = {path.parent.name: path.read_text() for path in Path(result["bundle"]).glob("codex/*/transcript.md")}
    assert sorted(name.rpartition(".")[2] for name in said) == ["c1", "c2", "c3"]
    assert agents.process("verify", result["bundle"], "--json").returncode == 0
    assert processes_of_agents() == []
