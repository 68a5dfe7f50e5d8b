"""The AsyncAPI 3 document: channels, streams, permissions and schemas, with no additional facts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from gatewright.app.asyncapi import payloads
from gatewright.app.asyncapi.channels import Channel, Kind, publisher_channels, system_channels
from gatewright.app.asyncapi.headers import header_schema
from gatewright.bus import topology as t
from gatewright.bus.identities import DEFAULT_PUBLISHER, PUBLISHER, STANDING
from gatewright.bus.permissions import Access, access_of
from gatewright.bus.subjects import MAX_MESSAGE_BYTES

Json = dict[str, Any]

ASYNCAPI = "3.0.0"
#: The version of all documents' meaning: every schema is a ``v1``.
WIRE_VERSION = "1.0.0"
_NAMED = "publisher-{publisher}"


def publisher_document(publisher: str = DEFAULT_PUBLISHER) -> Json:
    """The bus as one publisher sees it; the application that it describes is that publisher."""
    identity = PUBLISHER if publisher == DEFAULT_PUBLISHER else f"{PUBLISHER}-{publisher}"
    channels = publisher_channels(publisher)
    access = access_of(identity, publishers=(publisher,))
    streams = (*t.STREAMS, t.upload_stream(publisher))
    words = (
        f"What the publisher {publisher!r} sends to Gatewright and hears of it. Answers arrive below the inbox prefix "
        f"`_INBOX_{identity}`, and nowhere else."
    )
    return _document("Gatewright for publishers", words, channels, (access,), prefixed=False, streams=streams)


def system_document(pools: Sequence[str] = (t.DEFAULT_POOL,), partitions: int = 1) -> Json:
    """Return the document of the whole bus: what each identity may send and receive, with so many ledger streams."""
    accesses = [access_of(identity, tuple(pools), partitions=partitions) for identity in STANDING]
    # The name stands for any: a server's configuration has a line for each.
    named = access_of("publisher-x", tuple(pools), ("x",), partitions)
    channels, streams = system_channels(partitions), (*t.streams(partitions), t.upload_stream())
    words = (
        "Every subject of the bus, who may use it, and which documents cross it. Operations are named after identities. "
        f"The ledger lies in {'one stream' if partitions == 1 else f'{partitions} streams'}; `--partitions N` shows one that "
        "lies in N."
    )
    made = _document("Gatewright", words, channels, accesses, prefixed=True, streams=streams)
    made["operations"] |= _operations(_as_any(named), channels, prefixed=True)
    made["x-jetstream-streams"] = [_stream(each) for each in streams]
    made["x-nats-permissions"] = {
        each.identity: {"publish": sorted(each.sends()), "subscribe": sorted(each.receives())} for each in accesses
    }
    return made


def _document(
    title: str,
    words: str,
    channels: tuple[Channel, ...],
    accesses: Sequence[Access],
    *,
    prefixed: bool,
    streams: Sequence[t.StreamSpec],
) -> Json:
    operations: Json = {}
    for access in accesses:
        operations |= _operations(access, channels, prefixed=prefixed)
    payload_names = {name for channel in channels for name in (*channel.payloads, *channel.answers)}
    return {
        "asyncapi": ASYNCAPI,
        "info": {
            "title": title,
            "version": WIRE_VERSION,
            "description": words,
            "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {"nats": _server()},
        "channels": _channels(channels, streams),
        "operations": operations,
        "components": {
            "securitySchemes": _security(),
            "messages": _messages(channels),
            "schemas": payloads.components(payload_names),
        },
    }


def _server() -> Json:
    return {
        "host": "{host}:{port}",
        "protocol": "nats",
        "description": "NATS with JetStream. Authentication is required. Use tls:// where the operator has configured it.",
        "variables": {"host": {"default": "127.0.0.1"}, "port": {"default": "4222"}},
        "security": [{"$ref": f"#/components/securitySchemes/{name}"} for name in _security()],
        "x-nats-max-payload": MAX_MESSAGE_BYTES,
    }


def _security() -> Json:
    return {
        "nkey": {
            "type": "asymmetricEncryption",
            "description": "The identity's seed (<name>.nk) signs the challenge of the server.",
        },
        "jwt": {
            "type": "asymmetricEncryption",
            "description": "In operator mode: the seed with the user's JWT (<name>.creds).",
        },
    }


def _channels(channels: Iterable[Channel], streams: Sequence[t.StreamSpec]) -> Json:
    made: Json = {}
    for channel in channels:
        made[channel.key] = {
            "address": channel.address,
            "description": channel.description,
            "messages": {
                _id(name): {"$ref": f"#/components/messages/{_definition_key(channel.kind, name)}"} for name in channel.payloads
            },
            **({"parameters": {name: _parameter(name) for name in channel.parameters}} if channel.parameters else {}),
            **({"x-also-called": channel.also} if channel.also else {}),
            **({"x-jetstream-stream": kept} if (kept := _kept(channel, streams)) else {}),
        }
        if channel.answers:
            made[f"{channel.key}-replies"] = {
                "address": None,
                "description": "The inbox that the request named.",
                "messages": {
                    _id(name): {"$ref": f"#/components/messages/{_definition_key('reply', name)}"} for name in channel.answers
                },
            }
    return made


def _parameter(name: str) -> Json:
    match name:
        case "class":
            return {"description": "Priority class.", "enum": list(t.TASK_CLASSES)}
        case "role":
            return {"enum": [*t.ROLES, t.DEAD_LETTER_DECIDER]}
        case "verb":
            return {"enum": ["PING", "INFO", "STATS"]}
        case "pool":
            return {"description": "Pool of the role.", "default": t.DEFAULT_POOL}
    words = {
        "stream": "The name of a stream.",
        "copy": "Id of the transfer.",
        "publisher": "Name of the publisher. Each identity can use only its own.",
        "sha256": "SHA-256 of the whole file, 64 hexadecimal digits.",
        "piece": "Number of the piece, from 0.",
        "run_id": "Id of the run.",
        "queue_id": "Id of the merge queue.",
        "writer": "The identity that stored it.",
        "consumer": "Durable consumer of TASKS.",
        "repository": "SHA-256 of the repository's identity.",
        "service": "gw-<role>.",
        "id": "Id of the process.",
    }
    return {"description": words[name]}


def _messages(channels: Iterable[Channel]) -> Json:
    made: Json = {}
    for channel in channels:
        spoken = [(channel.kind, name) for name in channel.payloads] + [("reply", name) for name in channel.answers]
        for kind, name in spoken:
            made[_definition_key(kind, name)] = _message(kind, name)
    return dict(sorted(made.items()))


def _message(kind: str, name: str) -> Json:
    ours = payloads.is_ours(name)
    return {
        "name": name,
        "contentType": payloads.content_type(name),
        "headers": header_schema(kind, name if ours else ""),
        "payload": {"$ref": f"#/components/schemas/{payloads.component(name)}"},
        **({"examples": [{"name": "minimal", "payload": payloads.example(name)}]} if ours else {}),
    }


def _operations(access: Access, channels: tuple[Channel, ...], *, prefixed: bool) -> Json:
    """Return the operations of one identity, from its permissions."""
    made: Json = {}
    before = f"{access.identity}-" if prefixed else ""
    for channel in channels:
        asks = any(overlap(each, channel.pattern) for each in (*access.publish, *access.peer_sends))
        serves = any(overlap(each, channel.pattern) for each in access.serve)
        hears = any(overlap(each, channel.pattern) for each in (*access.hear, *access.peer_receives))
        pulled = [queue for queue in access.queues if overlap(queue.subject, channel.pattern)]
        if asks:
            made[f"{before}send-{channel.key}"] = _operation("send", access, channel)
        if serves or hears or pulled:
            received = _operation("receive", access, channel, answers=serves)
            if pulled:
                received["x-jetstream-consumers"] = [_consumer(queue) for queue in pulled]
            made[f"{before}receive-{channel.key}"] = received
    return made


def _operation(action: str, access: Access, channel: Channel, *, answers: bool = True) -> Json:
    made: Json = {
        "action": action,
        "channel": {"$ref": f"#/channels/{channel.key}"},
        "summary": channel.description,
        "tags": [{"name": access.identity}],
        "messages": [{"$ref": f"#/channels/{channel.key}/messages/{_id(name)}"} for name in channel.payloads],
    }
    if channel.answers and answers:
        replies = f"#/channels/{channel.key}-replies"
        made["reply"] = {
            "channel": {"$ref": replies},
            "messages": [{"$ref": f"{replies}/messages/{_id(name)}"} for name in channel.answers],
        }
    return made


def _stream(stream: t.StreamSpec) -> Json:
    return {
        "name": stream.name,
        "subjects": list(stream.subjects),
        "description": stream.description,
        "retention": stream.retention,
        "appendOnly": stream.append_only,
        "maxMessageBytes": stream.max_message_bytes,
        "duplicateWindowSeconds": stream.dedupe_seconds,
        "maxMessages": stream.max_messages,
        "maxMessagesPerSubject": stream.max_per_subject,
        "maxBytes": stream.max_bytes,
        "maxAgeSeconds": stream.keep_seconds,
    }


def _consumer(queue: t.Consumer) -> Json:
    return {
        "stream": queue.stream,
        "durable": queue.durable,
        "filter": queue.subject,
        "ackWaitSeconds": queue.ack_wait,
        "maxDeliver": queue.max_deliver,
        "maxAckPending": queue.max_ack_pending,
    }


def _kept(channel: Channel, streams: Sequence[t.StreamSpec]) -> str:
    """The stream that keeps what is published there."""
    if channel.address.startswith("$KV."):
        return t.LOCK_STREAM
    for stream in streams:
        if any(overlap(subject, channel.pattern) for subject in stream.subjects):
            return stream.name
    return ""


def _as_any(access: Access) -> Access:
    """The row of one publisher as that of any."""

    def any_name(subjects: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(".".join("*" if token == "x" else token for token in subject.split(".")) for subject in subjects)  # noqa: S105 - a token of a subject

    return Access(
        _NAMED.format(publisher="NAME"),
        any_name(access.publish),
        peer_sends=any_name(access.peer_sends),
        peer_receives=any_name(access.peer_receives),
    )


def overlap(one: str, other: str) -> bool:
    """Return whether both patterns can match one subject."""
    left, right = one.split("."), other.split(".")
    for mine, theirs in zip(left, right, strict=False):
        if ">" in (mine, theirs):
            return True
        if "*" not in (mine, theirs) and mine != theirs:
            return False
    return len(left) == len(right)


def _definition_key(kind: Kind | str, name: str) -> str:
    return f"{kind}.{name}"


def _id(name: str) -> str:
    """Return the id of a message within its channel."""
    return name


def as_text(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
