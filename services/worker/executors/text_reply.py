"""Asks a model for a text through its gateway: one request, one reply, by whichever API its provider has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from gatewright.errors import DeniedError
from gatewright.models.apis.endings import is_complete, refusal_words
from gatewright.models.choice import TEXT_APIS, api_of
from gatewright.models.gateway import ModelGateway
from gatewright.models.policy import Api, ModelsPolicy
from gatewright.services.worker.executors.port import ExecutionFailure
from gatewright.structured.asking import Turn

_MOST_TOKENS: Final = 32_000
#: Characters of a model's or a provider's words that a failure quotes.
_QUOTED: Final = 300


class TextReply(NamedTuple):
    """The text of a reply, and the model's reason where it declines."""

    text: str
    refusal: str


def why_incomplete(reply: TextReply, api: Api, ending: str | None) -> ExecutionFailure | None:
    """Return why a reply cannot be used as a whole; None for a complete one. ``ending``: as the provider reported it."""
    if reply.refusal:
        return ExecutionFailure("model_reply_incomplete", f"the model declined ({ending}): {reply.refusal[:_QUOTED]}")
    if is_complete(api, ending):
        return None
    words = f"the reply ended early ({ending or 'no reason given'}), so files may be missing from it"
    return ExecutionFailure("model_reply_incomplete", words)


async def ask_text(gateway: ModelGateway, model: str, turns: Sequence[Turn], api: Api) -> TextReply | ExecutionFailure:
    """Return the reply to a conversation that ends with a turn of the user, or why there is none."""
    path, body = _request(model, turns, api)
    async with gateway.client() as client, client.post(path, json=body) as response:
        answer: Any = await response.json(content_type=None)
        if response.status != 200:
            error = answer.get("error") if isinstance(answer, dict) else None
            words = str(error.get("message", ""))[:_QUOTED] if isinstance(error, dict) else ""
            return ExecutionFailure("model_unavailable", f"the model's provider answered {response.status}: {words}")
    reply = TextReply(_reply_text(answer), refusal_words(api, answer) if isinstance(answer, dict) else "")
    return reply if any(reply) else ExecutionFailure("model_unavailable", "the model answered without words")


def text_api_of(policy: ModelsPolicy, model: str) -> Api:
    """The API by which the model is asked for text. Raises DeniedError (``model_not_allowed``)."""
    api = api_of(policy, model, TEXT_APIS)
    if api is None:
        words = f"{model} cannot be asked for text: its provider has none of the APIs for it"
        raise DeniedError(words, code="model_not_allowed")
    return api


def _request(model: str, turns: Sequence[Turn], api: Api) -> tuple[str, dict[str, Any]]:
    messages = [{"role": "user" if turn.speaker == "user" else "assistant", "content": turn.text} for turn in turns]
    if api == "chat_completions":
        return "/v1/chat/completions", {"model": model, "messages": messages}
    if api == "messages":
        return "/v1/messages", {"model": model, "messages": messages, "max_tokens": _MOST_TOKENS}
    return "/v1/responses", {"model": model, "input": messages if len(turns) > 1 else turns[0].text}


def _reply_text(answer: Any) -> str:
    """The words of a reply in any of the three forms; empty for what is none."""
    try:
        if "choices" in answer:
            return str(answer["choices"][0]["message"]["content"] or "")
        if "content" in answer:
            return "".join(part["text"] for part in answer["content"] if part["type"] == "text")
        items = [item for item in answer["output"] if item["type"] == "message"]
        return "".join(part["text"] for item in items for part in item["content"] if part["type"] == "output_text")
    except (KeyError, IndexError, TypeError):
        return ""
