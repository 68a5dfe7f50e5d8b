"""What a coding host is offered over the Model Context Protocol, and what it is refused: the protocol's own client asks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client

from gatewright.app.cli.context import CommandContext
from gatewright.app.cli.hosts.access import MAX_TEXT, HostAccess, excerpt
from gatewright.app.cli.hosts.server import RequireToken, make_server
from gatewright.app.http_access import check_address, read_token
from gatewright.errors import ConfigurationError
from tests.git.repositories import MakeRepository

#: In the form of a real one, and in no list of examples.
KEY = b"AKIA" + b"Q3EGRUXWJ5LKZ7MB"
FILES = {
    "src/a.py": b"one = 1\ntwo = 2\nthree = 3\n",
    "src/key.py": b"key = '" + KEY + b"'\n",
    "src/picture.bin": b"\0\1two\n",
    "docs/umlaut-ü.md": b"two\n",
    ".env": b"two=2\n",
    "deploy/server.pem": b"two\n",
    "node_modules/x/index.js": b"two\n",
    "secrets.py": b"def two(): ...\n",
}
LOOKING = {
    *("explain_policy", "run_status", "wait_for_run", "list_runs", "read_log", "verify_run", "list_bundle", "read_bundle_file"),
    *("list_approvals", "list_files", "read_file", "search_files", "run_roles", "next_actions", "merge_queues"),
}


@pytest.fixture
def access(make_repository: MakeRepository, tmp_path: Path) -> HostAccess:
    top = make_repository("project", files=FILES).path
    (top / "untracked.txt").write_text("two\n")
    (top / "way-out").symlink_to("/etc/passwd")
    return HostAccess(CommandContext(top, tmp_path / "home", None, tmp_path / "key.pem"), top)


async def called(access: HostAccess, name: str, **arguments: Any) -> dict[str, Any]:
    """The structured answer; with ``failed`` whether it is a refusal. Text and structure say the same."""
    async with Client(make_server(access)) as client:
        result = await client.call_tool(name, arguments)
    text = "".join(each.text for each in result.content if each.type == "text")
    if result.structured_content is None:
        return {"failed": result.is_error, "text": text}
    assert json.loads(text) == result.structured_content
    return {"failed": result.is_error, **result.structured_content}


async def test_a_host_is_offered_no_tool_that_decides(access: HostAccess) -> None:
    async with Client(make_server(access)) as client:
        offered = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(offered) == LOOKING | {"submit_run", "revert_run", "abort_run"}
    assert not [name for name in offered if "approve" in name or "decide" in name or "sign" in name]
    hints = {name: tool.annotations for name, tool in offered.items()}
    assert {name for name, hint in hints.items() if hint is not None and hint.read_only_hint} == LOOKING
    assert all(tool.input_schema["additionalProperties"] is False for tool in offered.values())
    assert "Discloses" in (offered["submit_run"].description or "")
    schema = offered["submit_run"].input_schema
    assert schema["required"] == ["request", "paths", "tests"]
    assert set(schema["properties"]) == {"request", "paths", "tests", "repository", "patch", "agent", "fields"}
    assert schema["properties"]["paths"]["maxItems"] == 200


async def test_a_read_only_host_is_offered_no_changing_tool(access: HostAccess) -> None:
    looking = HostAccess(access.place, None, read_only=True)
    async with Client(make_server(looking)) as client:
        offered = {tool.name for tool in (await client.list_tools()).tools}
        refused = await client.call_tool("submit_run", {"request": "x", "paths": ["src"], "tests": []})
    assert offered == LOOKING - {"list_files", "read_file", "search_files"}
    assert refused.is_error


async def test_only_what_is_committed_and_looks_like_no_secret_is_listed(access: HostAccess) -> None:
    listed = await called(access, "list_files")
    assert listed["paths"] == ["docs/umlaut-ü.md", "secrets.py", "src/a.py", "src/key.py", "src/picture.bin"]
    assert (await called(access, "list_files", folder="src/../docs"))["paths"] == ["docs/umlaut-ü.md"]


@pytest.mark.parametrize(
    "path",
    [
        *("/etc/passwd", "../home/key.pem", "src/../../home", "way-out", "untracked.txt", ".env", "deploy/server.pem"),
        *(".git/config", "node_modules/x/index.js", "src", "src\\a.py", "src/a.py\0", "src/picture.bin", ""),
    ],
)
async def test_a_path_that_leads_out_or_is_hidden_is_refused(access: HostAccess, path: str) -> None:
    refused = await called(access, "read_file", path=path)
    assert refused["failed"]
    assert refused["error"]["code"] == "invalid_input"


async def test_lines_are_read_with_their_numbers_and_secrets_taken_out(access: HostAccess) -> None:
    read = await called(access, "read_file", path="src/a.py", first_line=2, lines=1)
    assert (read["text"], read["next_line"], read["total_lines"]) == ("two = 2", 3, 3)
    hidden = await called(access, "read_file", path="src/key.py")
    assert hidden["redacted"] == 1
    assert KEY.decode() not in hidden["text"]


async def test_a_search_finds_committed_text_alone(access: HostAccess) -> None:
    found = await called(access, "search_files", text="two")
    assert [(hit["path"], hit["line"]) for hit in found["hits"]] == [
        ("docs/umlaut-ü.md", 1),
        ("secrets.py", 1),
        ("src/a.py", 2),
    ]
    cut = await called(access, "search_files", text="two", limit=1)
    assert (len(cut["hits"]), cut["cut"]) == (1, True)
    assert (await called(access, "search_files", text=KEY.decode()))["hits"] == []


@pytest.mark.parametrize("ref", ["--output=/tmp/x", "no-such-branch", "HEAD:src/a.py", "@{upstream}"])
async def test_what_names_no_commit_is_refused(access: HostAccess, ref: str) -> None:
    refused = await called(access, "list_files", ref=ref)
    assert refused["failed"]
    assert refused["error"]["code"] in {"invalid_input", "bad_ref", "ref_not_found"}


async def test_an_argument_that_a_tool_has_not_is_refused_and_not_dropped(access: HostAccess) -> None:
    refused = await called(access, "submit_run", request="x", paths=["src"], tests=["true"], pathes=["src/a.py"])
    assert refused["error"]["code"] == "invalid_input"
    assert "pathes" in refused["error"]["message"]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("read_file", {"path": "x" * 2000}),
        ("read_file", {"path": "src/a.py", "first_line": -1}),
        ("list_files", {"limit": 10**9}),
        ("submit_run", {"request": "x" * 30_000, "paths": [], "tests": []}),
        ("wait_for_run", {"run_id": "run-x", "seconds": 10**6}),
        ("approve", {"request_id": "run-x.ask.1"}),
        ("run_status", {}),
    ],
)
async def test_what_is_too_large_missing_or_unknown_is_refused(
    access: HostAccess, name: str, arguments: dict[str, Any]
) -> None:
    assert (await called(access, name, **arguments))["failed"]


@pytest.mark.parametrize(
    ("name", "arguments", "pointer", "words"),
    [
        ("run_status", {}, "/run_id", "is missing"),
        ("submit_run", {"paths": [], "tests": []}, "/request", "is missing"),
        ("submit_run", {"request": "x", "paths": "src", "tests": ["true"]}, "/paths", "list"),
        ("read_file", {"path": "src/a.py", "first_line": "x"}, "/first_line", "integer"),
        ("list_approvals", {"limit": 0}, "/limit", "greater than"),
        ("next_actions", {"limit": 51}, "/limit", "less than"),
        ("wait_for_run", {"run_id": "run-x", "seconds": -1}, "/seconds", "greater than"),
    ],
)
async def test_a_missing_or_wrong_argument_is_named_in_plain_words(
    access: HostAccess, name: str, arguments: dict[str, Any], pointer: str, words: str
) -> None:
    refused = (await called(access, name, **arguments))["error"]
    assert refused["code"] == "invalid_input"
    assert any(fault["pointer"] == pointer and words in fault["message"] for fault in refused["faults"])
    assert "pydantic" not in json.dumps(refused)


async def test_without_a_system_a_host_receives_the_next_step(access: HostAccess) -> None:
    refused = await called(access, "list_runs")
    assert refused["error"]["code"] == "no_stack"
    assert "gatewright up" in refused["error"]["advice"]


async def test_a_change_is_made_in_one_way(access: HostAccess) -> None:
    order = {"request": "x", "paths": ["src"], "tests": ["true"], "patch": "diff", "agent": "codex"}
    assert (await called(access, "submit_run", **order))["error"]["code"] == "invalid_input"
    nowhere = HostAccess(access.place, None)
    del order["agent"]
    assert (await called(nowhere, "submit_run", **order))["error"]["code"] == "invalid_input"


async def test_explain_policy_reports_violations_before_anything_starts(access: HostAccess) -> None:
    document = {
        "request": "x",
        "repository": {"url": str(access.repository)},
        "requested_by": "host",
        "allowed_paths": ["src"],
        "acceptance_tests": [{"name": "t", "cmd": "curl x", "must_pass": True}],
        "executor": {"kind": "command", "commands": ["python x.py"]},
    }
    asked = await called(access, "explain_policy", document=document)
    assert not asked["passed"]
    assert "action_forbidden" in {violation["code"] for violation in asked["violations"]}
    assert (await called(access, "explain_policy", document={"request": 1}))["error"]["code"] == "malformed"


async def test_prompts_and_resources_are_there_and_a_strange_address_is_refused(access: HostAccess) -> None:
    async with Client(make_server(access)) as client:
        assert {each.name for each in (await client.list_prompts()).prompts} == {"make_change", "why_failed", "what_waits"}
        asked = await client.get_prompt("make_change", {"wish": "rename it"})
        assert "rename it" in str(asked.messages[0].content)
        for address in ("gatewright://runs/../x", "file:///etc/passwd", "gatewright://runs/r/bundle/../../x"):
            with pytest.raises(Exception, match=r"resource|Resource"):
                await client.read_resource(address)


def test_an_answer_is_bounded_and_names_the_next_line() -> None:
    assert excerpt("a\nb\nc", 2, 1) == {"first_line": 2, "total_lines": 3, "text": "b", "next_line": 3, "cut": False}
    assert excerpt("a", 9, 1)["text"] == ""
    long = excerpt("\n".join(["x" * 1000] * 100), 1, 100)
    assert len(long["text"]) <= MAX_TEXT
    assert (long["cut"], long["next_line"]) == (True, 60)
    one = excerpt("x" * (MAX_TEXT + 5), 1, 1)
    assert (len(one["text"]), one["cut"], one["next_line"]) == (MAX_TEXT, True, None)


@pytest.mark.parametrize(
    ("headers", "passes"),
    [
        ([(b"authorization", b"Bearer " + b"t" * 32)], True),
        ([], False),
        ([(b"authorization", b"Bearer " + b"u" * 32)], False),
        ([(b"authorization", b"Basic " + b"t" * 32)], False),
        ([(b"authorization", b"Bearer " + b"t" * 32), (b"authorization", b"Bearer x")], False),
    ],
)
async def test_without_the_token_nothing_is_read(headers: list[tuple[bytes, bytes]], passes: bool) -> None:
    reached, sent = [], []

    async def inner(_scope: Any, _receive: Any, _send: Any) -> None:
        reached.append(True)

    async def receive() -> Any:
        raise AssertionError("the body was read")

    async def send(message: Any) -> None:
        sent.append(message)

    await RequireToken(inner, "t" * 32)({"type": "http", "headers": headers}, receive, send)
    assert bool(reached) is passes
    assert [each.get("status") for each in sent[:1]] == ([] if passes else [401])


def test_a_token_is_long_and_private(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("t" * 40 + "\n")
    file.chmod(0o600)
    assert read_token(file) == "t" * 40
    file.chmod(0o640)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        read_token(file)
    file.chmod(0o600)
    for words in ("", "short", "with blanks " * 5, "ü" * 40):
        file.write_text(words)
        with pytest.raises(ConfigurationError):
            read_token(file)
    with pytest.raises(ConfigurationError):
        read_token(tmp_path / "missing")


def test_an_address_that_others_reach_wants_a_proxy_that_speaks_tls() -> None:
    with pytest.raises(ConfigurationError, match="proxy"):
        check_address("0.0.0.0", behind_proxy=False)  # noqa: S104 - what is refused
    check_address("0.0.0.0", behind_proxy=True)  # noqa: S104 - what is allowed when it is said
    check_address("127.0.0.1", behind_proxy=False)
