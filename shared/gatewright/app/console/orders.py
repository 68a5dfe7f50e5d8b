"""A run request as people write it into the form of the live page. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from gatewright.app.console.doors import SignedInPerson
from gatewright.client.client import inline_artifact
from gatewright.contracts import RunRequest, codec
from gatewright.errors import Fault, MalformedError

#: Bytes of the form as it is sent, where most characters of a patch take one and some three.
MOST_BYTES: Final = 6_000_000
#: Who makes the change: commands, a patch, or a coding agent of the operator's policies.
MAKERS: Final = {"command": "Commands", "patch": "A patch", "agent": "A coding agent"}
#: Who ordered a run, in words, where the sign-in names no person.
_NO_PERSON = "the live page"
_PATCH_NAME = "form.patch"


def request_of(fields: Mapping[str, str], person: SignedInPerson | None = None) -> RunRequest:
    """The request that the fields of a form ask for; empty lines count for nothing.

    ``person`` has sent the form: who ordered the run, and the author of its commit; None: the sign-in names no person.
    Raises MalformedError (``invalid_input``) with a fault for everything that is missing or wrong.
    """
    missing = [
        Fault(f"/{name}", "required", words) for name, words in _WANTED.items() if not fields.get(name, "").strip()
    ] + _unmade(fields)
    if missing:
        raise MalformedError("this cannot be run", faults=tuple(missing), code="invalid_input")
    document: dict[str, Any] = {
        "request": fields["request"].strip(),
        "repository": _repository(fields),
        "requested_by": person.names[0] if person is not None else _NO_PERSON,
        "ordered_by": person.names if person is not None else (),
        "allowed_paths": _lines(fields, "paths"),
        "acceptance_tests": [
            {"name": f"test-{number}", "cmd": command, "must_pass": True}
            for number, command in enumerate(_lines(fields, "tests"), 1)
        ],
        **_maker(fields),
    }
    if person is not None and person.author is not None:
        document["author"] = msgspec.to_builtins(person.author)
    if fields.get("environment", "").strip():
        document["environment"] = {"prefix": fields["environment"].strip()}
    for name in ("baseline_ref", "policy_pack", "priority", "idempotency_key"):
        if fields.get(name, "").strip():
            document[name] = fields[name].strip()
    return codec.decode(msgspec.json.encode(document), RunRequest)


_WANTED = {
    "request": "say what is wanted",
    "repository": "name a repository: an absolute path on the host of the gatekeeper, or an address",
    "paths": "name the paths that may change, one a line",
    "tests": "name the commands that have to succeed, one a line",
}


def _unmade(fields: Mapping[str, str]) -> list[Fault]:
    maker = fields.get("maker", "")
    if maker not in MAKERS:
        return [Fault("/maker", "required", "say who makes the change")]
    if maker != "agent" and not fields.get(maker, "").strip():
        words = {"command": "name the commands that make the change", "patch": "give the patch"}[maker]
        return [Fault(f"/{maker}", "required", words)]
    return []


def _repository(fields: Mapping[str, str]) -> dict[str, str]:
    target = fields.get("target_ref", "").strip()
    landing = {"target_ref": target, "landing": "target"} if target else {}
    return {"url": fields["repository"].strip(), **landing}


def _maker(fields: Mapping[str, str]) -> dict[str, Any]:
    match fields["maker"]:
        case "command":
            return {"executor": {"kind": "command", "commands": _lines(fields, "command")}}
        case "patch":
            # Browsers send the ends of lines as CR LF.
            patch = fields["patch"].replace("\r\n", "\n")
            artifact = inline_artifact(_PATCH_NAME, (patch.rstrip("\n") + "\n").encode())
            return {
                "executor": {"kind": "patch", "artifacts": [_PATCH_NAME]},
                "artifacts": [msgspec.to_builtins(artifact)],
            }
        case _:
            named = fields.get("agent", "").strip()
            return {"executor": {"kind": "agent", **({"agent": named} if named else {})}}


def _lines(fields: Mapping[str, str], name: str) -> list[str]:
    return [line.strip() for line in fields[name].splitlines() if line.strip()]
