"""Calls and answers held against the official OpenAPI description of GitHub (see README.md)."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from tests.forge.standin.app import Call, Reply

_FILE = Path(__file__).with_name("github.openapi.json")
_ERROR = {"$ref": "#/components/schemas/basic-error"}


def official_example(name: str) -> Any:
    """Return a copy of an official example of an answer."""
    return copy.deepcopy(_described()["components"]["examples"][name]["value"])


def faults_of_call(call: Call) -> Sequence[str]:
    """Return what is wrong with path, query and body of a call; unknown parameters and fields are faults."""
    operation = _operation(call)
    if operation is None:
        return [f"{call.route}: not described"]
    parameters = {found["name"]: found for found in map(_resolved, operation["parameters"])}
    faults = [f"{call.route}: unknown parameter {name}" for name in call.query.keys() - parameters.keys()]
    for name, value in {**call.query, **call.names}.items():
        if name in parameters:
            schema = parameters[name]["schema"]
            typed = int(value) if schema.get("type") == "integer" and value.isdecimal() else value
            faults += _faults(schema, typed, f"{call.route}: {name}")
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        faults += _faults(schema, call.body, f"{call.route}: body")
        faults += [f"{call.route}: unknown field {name}" for name in call.body.keys() - schema["properties"].keys()]
    return faults


def faults_of_reply(call: Call, reply: Reply) -> Sequence[str]:
    """Return what is wrong with an answer. An error that the call's description leaves out has the common form of errors."""
    operation = _operation(call)
    described = None if operation is None else operation["responses"].get(str(reply.status))
    if described is None and reply.status < 400:
        return [f"{call.route}: {reply.status} is not described"]
    schema = _ERROR if described is None else _resolved(described)["content"]["application/json"]["schema"]
    return list(_faults(schema, reply.document, f"{call.route}: {reply.status}"))


def _operation(call: Call) -> Any:
    method, path = call.route.split(" ", 1)
    return _described()["paths"].get(path, {}).get(method.lower())


def _resolved(node: Any) -> Any:
    if "$ref" in node:
        _, _, section, name = node["$ref"].split("/", 3)
        return _described()["components"][section][name]
    return node


def _faults(schema: Any, value: Any, place: str) -> Iterator[str]:
    for error in _validator(json.dumps(schema)).iter_errors(value):
        # GitHub sends null for the repository of a deleted fork, which its description leaves out.
        if not (error.json_path.endswith(".head.repo") and error.instance is None):
            yield f"{place}{error.json_path[1:]}: {error.message[:200]}"


@cache
def _validator(schema: str) -> Draft202012Validator:
    return Draft202012Validator({**json.loads(schema), "components": _described()["components"]})


@cache
def _described() -> Any:
    return _with_null(json.loads(_FILE.read_text("utf-8")))


def _with_null(node: Any) -> Any:
    """Return a node of OpenAPI 3.0 as JSON Schema: ``nullable`` becomes a second type."""
    if isinstance(node, list):
        return [_with_null(child) for child in node]
    if not isinstance(node, dict):
        return node
    changed = {key: _with_null(child) for key, child in node.items()}
    if changed.pop("nullable", None) is not True:
        return changed
    return {"anyOf": [changed, {"type": "null"}], **({"properties": changed["properties"]} if "properties" in changed else {})}
