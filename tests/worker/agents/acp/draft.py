"""The schema of version 2 of the protocol, a draft, as far as it says what a client sends: every message of ours is held to it.

``draft_schema.json`` has the definitions of ``schema/v2/schema.json`` of the npm package ``@agentclientprotocol/sdk`` that such
messages reach, as they are there but for their descriptions; ``source`` names the version and the digest of the whole file.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from jsonschema import Draft202012Validator

_DEFINITIONS: Final[dict[str, Any]] = json.loads(Path(__file__).with_name("draft_schema.json").read_text())["$defs"]
#: Of the definitions that a message of a client is one of: the method by which it is sent.
_SENT: Final = {
    form["x-method"]: name
    for name, form in _DEFINITIONS.items()
    if form.get("x-side") == "agent" and name.endswith(("Request", "Notification"))
}


def breaches(message: Mapping[str, Any]) -> list[str]:
    """What in ``message`` of a client the draft does not have. An answer is one to a question for leave, or an error."""
    if message.get("jsonrpc") != "2.0":
        return ["no message of JSON-RPC 2.0"]
    if "method" in message:
        name, said = _SENT.get(message["method"]), message.get("params")
        if name is None:
            return [f"the draft has no method {message['method']} for clients"]
        if ("id" in message) == name.endswith("Notification"):
            return [f"{message['method']} is a {name}"]
    elif "error" in message:
        name, said = "Error", message["error"]
    else:
        name, said = "RequestPermissionResponse", message.get("result")
    return [f"{error.json_path}: {error.message}" for error in _validator(name).iter_errors(said)]


@functools.cache
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": _DEFINITIONS})
