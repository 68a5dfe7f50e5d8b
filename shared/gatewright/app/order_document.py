"""From named values to a run request on the wire, by the table of options: for the live page's form and the tool of hosts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import Any, Final

import msgspec

from gatewright.client.client import inline_artifact
from gatewright.contracts.vocabulary import ExecutorName
from gatewright.executor_kinds import EXECUTOR_KINDS, ExecutorKind
from gatewright.order_form.run_options import ANY_AGENT, order_rows


def order_document(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a run request that the values ask for, by the names of their rows; what is empty is left out.

    What becomes an artifact is bytes. Raises nothing: the codec judges the document.
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


def _executor_part(name: ExecutorName, kind: ExecutorKind, value: Any) -> dict[str, Any]:
    """The executor that the option of its kind asks for: commands, the bytes of an artifact, or the name of who is asked."""
    match kind.answers:
        case "commands":
            return {"executor": {"kind": name, "commands": list(value)}}
        case "artifacts":
            artifact = msgspec.to_builtins(inline_artifact(kind.artifact.format(1), value))
            return {"executor": {"kind": name, "artifacts": [artifact["name"]]}, "artifacts": [artifact]}
        case "asked":
            return {"executor": {"kind": name, **({name: value} if value != ANY_AGENT else {})}}


#: Options that are more than the one field that their row points to.
_PARTS: Final[Mapping[str, Callable[[Any], dict[str, Any]]]] = {
    "tests": _tests_part,
    "target_ref": _target_part,
    "env": _environment_part,
    **{kind.option: partial(_executor_part, name, kind) for name, kind in EXECUTOR_KINDS.items()},
}
