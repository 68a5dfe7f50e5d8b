"""A small bug in a project as people have them: the agent reads the conventions, runs the tests itself, and lands at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from tests.agents.conftest import AgentStack, log_of, open_agents, processes_of_agents
from tests.git.repositories import MakeRepository, Repository
from tests.models.provider import ScriptedProvider
from tests.models.turns import Say, Script, Shell

#: By the API that each asks its model with.
AGENTS = {"codex": "openai", "claude": "anthropic", "opencode": "openai"}
PYTEST = "python -m pytest -q"
CONVENTION = "Money is an int of cents. Write a docstring for each public function."
FILES: Mapping[str, bytes] = {
    "AGENTS.md": f"# House rules\n\n{CONVENTION}\n".encode(),
    ".gitignore": b"*.egg-info/\n",
    "pyproject.toml": b"[project]\nname = 'shop'\nversion = '1'\n\n[tool.pytest.ini_options]\npythonpath = ['src']\n",
    "src/shop/__init__.py": b"",
    "src/shop/prices.py": b'def total(net, vat):\n    """Cents with VAT."""\n    return net - vat\n',
    "tests/test_prices.py": b"from shop.prices import total\n\n\ndef test_total():\n    assert total(100, 19) == 119\n",
}
SCRIPT: Script = [
    Shell(f"{PYTEST}; ls -A"),
    Shell("sed -i 's/net - vat/net + vat/' src/shop/prices.py && git diff --stat"),
    Shell(f"{PYTEST}; mkdir shop.egg-info; touch shop.egg-info/PKG-INFO .coverage"),
    Say("total() subtracted the VAT. It adds it now, and the tests pass."),
]


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentStack]:
    with ScriptedProvider({"fix": SCRIPT}) as provider:
        key = {"environment": "SCRIPTED_KEY"}
        providers = [
            {"name": "openai", "apis": ["responses", "chat_completions"], "base_url": f"{provider.root}/v1", "key": key},
            {"name": "anthropic", "apis": ["messages"], "base_url": provider.root, "key": key},
        ]
        models = [
            {"name": f"{name}-fix", "provider": name, "upstream": "fix", "price": None} for name in ("openai", "anthropic")
        ]
        routes = [{"role": "worker", "models": [model["name"] for model in models]}]
        policy = {"version": "1", "providers": providers, "models": models, "routes": routes}
        with open_agents(tmp_path_factory.mktemp("first-try"), provider, policy, AgentStack) as stack:
            yield stack


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_that_runs_the_tests_itself_lands_at_the_first_try(
    agents: AgentStack, make_repository: MakeRepository, agent: str
) -> None:
    project = make_repository("project", files=FILES).path
    before = len(agents.provider.requests)
    words = ("--allow", "src/shop/prices.py", "--test", PYTEST, "--max-retries", "0")
    code, result = agents.run(project, *words, "--agent", agent, "--model", f"{AGENTS[agent]}-fix")
    assert (code, result["status"], result["failure"]) == (0, "SUCCESS", None)
    fixed = Repository(project, project.parent / "home").git("diff", "main", result["branch"])
    assert fixed.count(b"\ndiff --git ") == 0
    assert b"+    return net + vat" in fixed
    requests = [request.body for request in agents.provider.requests[before:]]
    assert all(CONVENTION.encode() in body for body in requests if b"prices.py" in body)
    assert b"1 failed" in requests[-1]
    assert b"1 passed" in requests[-1]
    assert b"1 file changed, 1 insertion(+), 1 deletion(-)" in requests[-1]
    assert "It adds it now" in log_of(result, "transcript.md")
    assert processes_of_agents() == []
