"""Trim the official OpenAPI description of GitHub's API to the calls that the stand-in serves.

    python tests/forge/standin/trim_description.py generated/api.github.com.json

The result is ``github.openapi.json``: paths, parameters, bodies, schemas and examples, without prose.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

REPOSITORY = "/repos/{owner}/{repo}"
CALLS = {
    "/user": ["get"],
    f"{REPOSITORY}/pulls": ["get", "post"],
    f"{REPOSITORY}/pulls/{{pull_number}}": ["get", "patch"],
    f"{REPOSITORY}/pulls/{{pull_number}}/merge": ["put"],
    f"{REPOSITORY}/commits/{{ref}}/statuses": ["get"],
    f"{REPOSITORY}/statuses/{{sha}}": ["post"],
    f"{REPOSITORY}/issues/{{issue_number}}/comments": ["get", "post"],
    f"{REPOSITORY}/issues/comments/{{comment_id}}": ["patch"],
    f"{REPOSITORY}/collaborators/{{username}}/permission": ["get"],
    f"{REPOSITORY}/git/commits/{{commit_sha}}": ["get"],
}
PROSE = {"description", "summary", "externalDocs", "operationId", "tags"}


def references(node: Any) -> Iterator[str]:
    match node:
        case dict():
            if isinstance(node.get("$ref"), str):
                yield node["$ref"]
            for child in node.values():
                yield from references(child)
        case list():
            for child in node:
                yield from references(child)


def plain(node: Any, *, names: bool = False) -> Any:
    """Return the node without prose. ``names``: its keys are names of properties or components, and not of keywords."""
    match node:
        case dict():
            return {
                key: plain(child, names=key in ("properties", "schemas", "parameters", "responses") and not names)
                for key, child in node.items()
                if names or not (key in PROSE or key.startswith("x-"))
            }
        case list():
            return [plain(child) for child in node]
    return node


def trim(whole: dict[str, Any]) -> dict[str, Any]:
    paths = {path: {method: whole["paths"][path][method] for method in methods} for path, methods in CALLS.items()}
    components: dict[str, dict[str, Any]] = {}
    left: list[Any] = [paths]
    while left:
        for reference in references(left.pop()):
            _, _, section, name = reference.split("/", 3)
            if name not in components.setdefault(section, {}):
                components[section][name] = whole["components"][section][name]
                left.append(components[section][name])
    examples = components.pop("examples")
    kept = plain({"paths": paths, "components": {name: components[name] for name in sorted(components)}})
    kept["components"]["examples"] = examples
    info = {"title": "GitHub v3 REST API", "version": whole["info"]["version"]}
    return {"openapi": whole["openapi"], "info": info, **kept}


if __name__ == "__main__":
    trimmed = trim(json.loads(Path(sys.argv[1]).read_text("utf-8")))
    file = Path(__file__).with_name("github.openapi.json")
    file.write_text(json.dumps(trimmed, indent=1, sort_keys=True, ensure_ascii=False) + "\n", "utf-8")
