"""Whatever a coding host passes to a tool is answered or refused with a code; the library never reports a defect of ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client

from gatewright.app.cli.context import CommandContext
from gatewright.app.cli.hosts.access import HostAccess
from gatewright.app.cli.hosts.run_tools import SubmittingTools
from gatewright.app.cli.hosts.server import make_server
from gatewright.client.client import _document
from gatewright.contracts import RunRequest, codec
from gatewright.errors import GatewrightError, MalformedError
from gatewright.order_form.run_options import order_rows
from tests.factories import make_request
from tests.git.repositories import MakeRepository
from tests.odd_values import Message, few_or_all, variants

REQUEST: Message = json.loads(codec.encode(make_request()))
ORDER: Message = {
    "request": "x",
    "paths": ["src"],
    "tests": ["pytest"],
    "repository": None,
    "patch": "diff --git a/a b/a\n",
    "agent": None,
    "fields": {"repository": {"url": "/x"}, "baseline_ref": "main", "budget": {"tokens": 5}, "environment": {"prefix": "/x"}},
}


@pytest.fixture
def access(make_repository: MakeRepository, tmp_path: Path) -> HostAccess:
    top = make_repository("project", files={"src/a.py": b"one = 1\n"}).path
    return HostAccess(CommandContext(top, tmp_path / "home", None, tmp_path / "key.pem"), top)


@few_or_all
def test_an_odd_order_is_refused_or_a_request(access: HostAccess, values: tuple[object, ...]) -> None:
    taken = 0
    for odd in variants(ORDER, values):
        if not isinstance(odd, dict) or odd.keys() != ORDER.keys() or not isinstance(odd["fields"], dict | None):
            continue  # the library holds arguments to the tool's own schema
        if not (isinstance(odd["request"], str) and isinstance(odd["patch"], str | None)):
            continue
        if any(not isinstance(odd[name], list) for name in ("paths", "tests")):
            continue
        try:
            given = {row.name: odd[row.key] for row in order_rows() if row.tool is not None}
            _document(SubmittingTools(access)._document(given, odd["fields"] or {}), RunRequest)
        except MalformedError:
            continue
        taken += 1
    assert taken > 5


@few_or_all
def test_an_odd_document_of_a_client_is_refused_or_a_request(values: tuple[object, ...]) -> None:
    for odd in (*variants(REQUEST, values), *variants(REQUEST, (float("nan"), object(), {1: 2}, b"x", {"x"}))):
        try:
            assert isinstance(_document(odd, RunRequest), RunRequest)
        except MalformedError as error:
            refused = error
            assert refused.message


@few_or_all
async def test_odd_arguments_of_tools_are_answered(access: HostAccess, values: tuple[object, ...]) -> None:
    calls: dict[str, dict[str, Any]] = {
        "list_files": {"folder": "src"},
        "read_file": {"path": "src/a.py", "first_line": 1, "lines": 5},
        "search_files": {"text": "one"},
        "explain_policy": {"document": {"task_id": "x", "request": "y"}},
    }
    defects = []
    async with Client(make_server(access)) as client:
        for name, arguments in calls.items():
            for odd in variants(arguments, values):
                if not isinstance(odd, dict):
                    continue
                try:
                    said = json.dumps(odd).encode().decode()
                    result = await client.call_tool(name, json.loads(said))
                except Exception as error:
                    if isinstance(error, GatewrightError):
                        raise
                    continue
                text = "".join(each.text for each in result.content if each.type == "text")
                if result.is_error and result.structured_content is None and "validation error" not in text:
                    defects.append((name, said[:100], text[:200]))
    assert defects == []
