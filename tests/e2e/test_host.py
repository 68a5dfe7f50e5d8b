"""A coding host drives a run over the Model Context Protocol by that protocol's own client: as a publisher, and no more."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.e2e.conftest import MakeProject
from tests.e2e.stack import PREFIX, Stack, slow_request
from tests.waiting import PATIENCE

EXECUTOR = {"kind": "command", "commands": ["python tools/edit.py 0 {paths}"]}
pytestmark = pytest.mark.long

COMMAND = ("-m", "gatewright.app.cli.main", "mcp")
ORDER: dict[str, Any] = {
    "request": "edit all",
    "paths": ["src"],
    "tests": ["python tools/check.py 0"],
    "fields": {"executor": EXECUTOR, "environment": {"prefix": str(PREFIX)}},
}


def host(stack: Stack, project: Path, *words: str) -> Client:
    """A client of ``gatewright mcp`` as a host starts it: by a command, over its standard input and output."""
    command = [*COMMAND, "--repo", str(project), *words]
    return Client(stdio_client(StdioServerParameters(command=sys.executable, args=command, env=stack.environment)))


async def test_a_host_orders_a_change_follows_it_and_verifies_what_landed(stack: Stack, make_project: MakeProject) -> None:
    project = make_project()
    async with host(stack, project) as client:

        async def asked(name: str, **arguments: Any) -> dict[str, Any]:
            result = await client.call_tool(name, arguments)
            assert result.structured_content is not None, result.content
            return {"failed": result.is_error, **result.structured_content}

        run_id = (await asked("submit_run", **ORDER))["run_id"]
        ended = await asked("wait_for_run", run_id=run_id, seconds=50)
        assert (ended["result"]["status"], ended["ended"]) == ("SUCCESS", True)
        verified = await asked("verify_run", run_id=run_id)
        assert (verified["ok"], verified["run_id"]) == (True, run_id)
        files = [each["path"] for each in (await asked("list_bundle", run_id=run_id))["files"]]
        assert {"manifest.json", "patch.diff", "events.jsonl"} <= set(files)
        assert "+edited = True" in (await asked("read_bundle_file", run_id=run_id, path="patch.diff"))["text"]
        for path in ("../manifest.json", "/etc/passwd", "missing"):
            assert (await asked("read_bundle_file", run_id=run_id, path=path))["error"]["code"] == "invalid_input"
        assert (await asked("read_log", run_id=run_id))["run_id"] == run_id
        assert run_id in [run["run_id"] for run in (await asked("list_runs"))["runs"]]
        assert (await asked("abort_run", run_id=run_id, reason="late"))["asked"] is False
        resource = await client.read_resource(f"gatewright://runs/{run_id}")
        assert json.loads(resource.contents[0].model_dump()["text"])["run"]["run_id"] == run_id
        for model in ("role_contract_summary", "role_binding_summary", "role_binding_read_model", "workflow_case_read_model"):
            roles = await asked("run_roles", run_id=run_id, model=model)
            assert (roles["execution_authority"], roles["access"]) == ("task_contract", "read-only")
        assert roles["source_run_id"] == run_id
        outside = await asked("submit_run", **{**ORDER, "paths": ["docs"]})
        refused = await asked("wait_for_run", run_id=outside["run_id"], seconds=50)
        assert refused["result"]["status"] == "FAILED"
        assert refused["words"]
        actions = {each["run_id"]: each for each in (await asked("next_actions"))["actions"]}
        assert (actions[run_id]["kind"], actions[run_id]["commands"]) == ("landed", [f"gatewright verify {run_id}"])
        assert (actions[outside["run_id"]]["kind"], bool(actions[outside["run_id"]]["advice"])) == ("failed", True)
        assert (await asked("run_status", run_id="run-" + "0" * 20))["error"]["code"] == "run_unknown"
    landed = subprocess.run(
        ("git", "show", f"{ended['result']['commit']}:src/a.py"), cwd=project, check=True, capture_output=True, text=True
    )
    assert landed.stdout.endswith("edited = True\n")


async def test_a_host_sees_no_run_of_another_publisher(stack: Stack, make_project: MakeProject) -> None:
    project = make_project()
    with stack.client() as operator:
        theirs = operator.submit_request(slow_request(project, 0.0), patience=PATIENCE)
        operator.wait(theirs, timeout=PATIENCE)
    async with host(stack, project) as client:
        for tool in ("run_status", "list_bundle", "verify_run", "abort_run"):
            more = {"reason": "mine"} if tool == "abort_run" else {}
            result = await client.call_tool(tool, {"run_id": theirs, **more})
            assert result.structured_content is not None
            assert result.structured_content["error"]["code"] == "run_unknown"
        listed = await client.call_tool("list_runs", {"limit": 100})
        assert theirs not in str(listed.structured_content)


def test_a_host_that_goes_leaves_no_process(stack: Stack, make_project: MakeProject) -> None:
    process = subprocess.Popen(
        [sys.executable, *COMMAND, "--repo", str(make_project())], stdin=subprocess.PIPE, env=stack.environment
    )
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(timeout=PATIENCE) == 0
