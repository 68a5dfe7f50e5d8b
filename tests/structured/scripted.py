"""Scripts of models that answer an order with a document."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from gatewright.profiles.policy import ENVIRONMENTS_FILE
from gatewright.resources import policy_directory
from tests.models.provider import ScriptedProvider
from tests.models.turns import Say, Turn

_DIRECTIVE = re.compile(r"directive-[0-9a-f]{32}")


def answering(*documents: Mapping[str, Any] | str) -> Callable[[dict[str, Any]], Turn]:
    """Each answer in turn, with the marker of the order that it answers; a text as it is."""

    def turn(body: dict[str, Any]) -> Turn:
        said = json.dumps(body)
        found = _DIRECTIVE.search(said)
        assert found is not None
        answered = sum(message["role"] == "assistant" for message in body["messages"])
        document = documents[min(answered, len(documents) - 1)]
        if isinstance(document, str):
            return Say(document)
        return Say(json.dumps({"directive_ack": found[0], **document}))

    return turn


def shown(provider: ScriptedProvider, number: int = 0) -> str:
    """The user's first message of a request."""
    message = provider.requests[number].json["messages"][1]["content"]
    return message if isinstance(message, str) else "".join(part["text"] for part in message)


def write_models(folder: Path, provider: ScriptedProvider, scripts: Mapping[str, str]) -> Path:
    """A ``models.json`` in which each role of ``scripts`` has its own script; all models are priced."""
    price = {"input": 1.0, "output": 2.0}
    providers = [
        provider.provider(script, name=script, apis=["chat_completions"]) for script in dict.fromkeys(scripts.values())
    ]
    policy = {
        "version": "1",
        "providers": providers,
        "models": [
            {"name": f"{script}-model", "provider": script, "price": price} for script in dict.fromkeys(scripts.values())
        ],
        "routes": [{"role": role, "models": [f"{script}-model"]} for role, script in scripts.items()],
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "models.json").write_bytes(msgspec.json.encode(policy))
    shutil.copy(policy_directory() / ENVIRONMENTS_FILE.name, folder)
    return folder
