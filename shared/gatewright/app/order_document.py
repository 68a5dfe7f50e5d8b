"""From named values to a run request on the wire, by the table of options: for the live page's form and the tool of hosts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, Final

import msgspec

from gatewright.client.client import inline_artifact
from gatewright.order_form.run_options import ANY_AGENT, order_rows

#: The artifact that holds a patch that was sent as text.
PATCH_NAME: Final = "given.patch"


def order_document(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a run request that the values ask for, by the names of their rows; what is empty is left out.

    A patch is its bytes. Raises nothing: the codec judges the document.
    """
    document: dict[str, Any] = {}
    for row in order_rows():
        value = values.get(row.name)
        if value is not None and value is not False and value not in ("", (), b"", []):
            _merge(document, _PARTS[row.name](value) if row.name in _PARTS else _nested(row.pointer, value))
    return document


def _nested(pointer: str, value: Any) -> dict[str, Any]:
    """``{"budget": {"tokens": value}}`` for ``budget.tokens``."""
    nested: dict[str, Any] = reduce(lambda inner, name: {name: inner}, reversed(pointer.split(".")), value)
    return nested


def _merge(document: dict[str, Any], part: Mapping[str, Any]) -> None:
    for name, value in part.items():
        if isinstance(value, dict) and isinstance(document.get(name), dict):
            _merge(document[name], value)
        else:
            document[name] = value


def _tests_part(commands: Sequence[str]) -> dict[str, Any]:
    tests = [{"name": f"test-{number}", "cmd": command, "must_pass": True} for number, command in enumerate(commands, 1)]
    return {"acceptance_tests": tests}


def _target_part(ref: str) -> dict[str, Any]:
    return {"repository": {"target_ref": ref, "landing": "target"}}


def _environment_part(prefixes: Sequence[str]) -> dict[str, Any]:
    first, *others = prefixes
    return {"environment": {"prefix": first, **({"others": [{"prefix": each} for each in others]} if others else {})}}


def _commands_part(commands: Sequence[str]) -> dict[str, Any]:
    return {"executor": {"kind": "command", "commands": list(commands)}}


def _patch_part(patch: bytes) -> dict[str, Any]:
    artifact = msgspec.to_builtins(inline_artifact(PATCH_NAME, patch))
    return {"executor": {"kind": "patch", "artifacts": [PATCH_NAME]}, "artifacts": [artifact]}


def _agent_part(name: str) -> dict[str, Any]:
    return {"executor": {"kind": "agent", **({"agent": name} if name != ANY_AGENT else {})}}


#: Options that are more than the one field that their row points to.
_PARTS: Final[Mapping[str, Callable[[Any], dict[str, Any]]]] = {
    "tests": _tests_part,
    "target_ref": _target_part,
    "env": _environment_part,
    "commands": _commands_part,
    "patch": _patch_part,
    "agent": _agent_part,
}
