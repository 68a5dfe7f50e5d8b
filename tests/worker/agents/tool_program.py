"""A tool server in an installation of its own, written for the shell so that any sandbox can run it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

#: What its tool ``lookup`` answers.
ANSWER = "the answer is 42"
_SERVER = """\
#!/bin/sh
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\\n' "$1" "$2"; }
while read -r line; do
    id=$(printf %s "$line" | sed -n 's/.*"id":\\([0-9]*\\).*/\\1/p')
    case $line in
    *'"initialize"'*) answer "$id" '{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"prompts":{}},
"serverInfo":{"name":"docs","version":"1.0.0"}}' | tr -d '\\n'; echo ;;
    *'"tools/list"'*) answer "$id" '{"tools":[TOOLS]}' ;;
    *'"name":"count"'*) answer "$id" '{"content":[{"type":"text","text":"'"$(ls | wc -l) of $(pwd)"'"}]}' ;;
    *'"name":"die"'*) exit 3 ;;
    *'"name":"spoil"'*) echo spoilt >README.md; answer "$id" '{"content":[],"isError":true}' ;;
    *'"tools/call"'*) answer "$id" '{"content":[{"type":"text","text":"ANSWER"}]}' ;;
    esac
done
"""
_TOOLS = ("lookup", "secret", "count", "die", "spoil")


def install_server(folder: Path, *tools: str) -> dict[str, Any]:
    """Write the server into ``folder``, and return its entry of ``agents.json`` with these tools."""
    offered = ",".join(json.dumps({"name": tool, "description": tool, "inputSchema": {"type": "object"}}) for tool in _TOOLS)
    program = folder / "docs" / "server"
    program.parent.mkdir(parents=True)
    program.write_text(_SERVER.replace("TOOLS", offered).replace("ANSWER", ANSWER))
    for place in (folder, program.parent, program):
        place.chmod(0o755)
    (program.parent / "package.json").write_text('{"version": "1.2.0"}')
    return {
        "name": "docs",
        "program": ["docs/server"],
        "package": "docs/package.json",
        "versions": {"since": "1", "before": "2"},
        "tools": list(tools),
    }
