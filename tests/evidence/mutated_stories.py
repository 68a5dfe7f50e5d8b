"""Every field of every document of a story, each with other values of its own kind.

The liar keeps the digests right: where the digest of a changed document stands elsewhere, the story has the new one. What
people signed is changed as a whole.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import msgspec
from msgspec import inspect

from gatewright.contracts import OrchestratorEvent, codec
from gatewright.contracts.vocabulary import Document
from gatewright.run.events import EVENTS
from tests.evidence.bundle_stories import LINKS, BundleStory, Json, moment_of

Pointer = tuple[str | int, ...]
#: In the place of a value: it is left out.
DROPPED: Any = object()
TIMES = ("2020-01-01T00:00:00.000Z", "2031-01-01T00:00:00.000Z", "yesterday")
LARGE = 99_999
OTHER_FILE = "file:///etc/passwd"
_DIGEST = re.compile(r"(?:artifact:sha256:)?([0-9a-f]{64})")


@dataclass(frozen=True)
class Mutation:
    """A story with one value changed, which ``make_story`` makes. ``document`` and ``pattern`` name the field.

    ``event`` is the number of the changed event; 0: the change is in an artifact.
    """

    document: str
    pattern: str
    change: str
    make_story: Callable[[], BundleStory]
    event: int = 0

    @property
    def field(self) -> tuple[str, str]:
        return self.document, self.pattern

    @property
    def kind(self) -> str:
        """Changes of one kind have another value, or another number."""
        return self.change.split(" ")[0] if self.change.startswith(("to ", "added ")) else self.change


@dataclass(frozen=True)
class _Change:
    """Another value for one place of a document."""

    pointer: Pointer
    value: Any
    words: str


def mutations(story: BundleStory) -> Iterator[Mutation]:
    """Every event left out and told twice; every field of the events, and of the artifacts that they name, changed."""
    others = _others(story)
    for number, event in enumerate(story.events):
        document = name_of(event)
        yield Mutation(document, "", "left out", partial(_with, story, number), number + 1)
        yield Mutation(document, "", "twice", partial(_with, story, number, event, event), number + 1)
        for change in _changes(event, _event_type(event), (), others):
            pattern = pattern_of(change.pointer)
            yield Mutation(document, pattern, change.words, partial(_told, story, number, change), number + 1)
    yield from _of_artifacts(story, others)


def sampled(story: BundleStory, most: int) -> Iterator[Mutation]:
    """Of each kind of change of each field the first ``most``."""
    tried: Counter[tuple[str, str, str]] = Counter()
    for mutation in mutations(story):
        kind = (*mutation.field, mutation.kind)
        tried[kind] += 1
        if tried[kind] <= most:
            yield mutation


def _with(story: BundleStory, number: int, *events: Json) -> BundleStory:
    """The story with ``events`` in the place of one."""
    return replace(story, events=(*story.events[:number], *events, *story.events[number + 1 :]))


def name_of(event: Json) -> str:
    """The kind of an event; with the gate or the role whose document it is, where there are several."""
    kind, payload = str(event["event_type"]), event["payload"]
    match kind:
        case "gate_judged":
            return f"{kind}.{payload['report']['gate']}"
        case "task_dispatched" | "usage_reported" | "transfer_planned":
            role = payload.get("role") or payload.get("manifest", {}).get("role") or event.get("role")
            return f"{kind}.{role}"
        case _:
            return kind


def pattern_of(pointer: Pointer) -> str:
    """A JSON pointer in which ``*`` stands for any place of a list."""
    return "".join(f"/{'*' if isinstance(step, int) else step}" for step in pointer)


def _event_type(event: Json) -> inspect.Type:
    """The type of an event with that of its payload."""
    return _Record(inspect.type_info(OrchestratorEvent), inspect.type_info(EVENTS[event["event_type"]]))  # type: ignore[arg-type, return-value]


@dataclass(frozen=True)
class _Record:
    record: inspect.StructType
    payload: inspect.StructType


def _told(story: BundleStory, number: int, change: _Change) -> BundleStory:
    """The story with that change, and the new digest of each document that it lies in, wherever the old one is named."""
    event = story.events[number]
    mutated = _put(event, change.pointer, change.value)
    told = story.with_event(number, mutated)
    names, blobs = {}, dict(story.blobs)
    for depth in range(1, len(change.pointer)):
        kind = _document_at(event, change.pointer[:depth])
        old, new = _bytes_of(_get(event, change.pointer[:depth]), kind), _bytes_of(_get(mutated, change.pointer[:depth]), kind)
        if old is not None and new is not None and old != new:
            names[hashlib.sha256(old).hexdigest()] = hashlib.sha256(new).hexdigest()
            blobs[hashlib.sha256(new).hexdigest()] = new
    named = msgspec.json.encode(told.events).decode()
    return replace(told, blobs=blobs).renamed({old: new for old, new in names.items() if old in named})


def _document_at(event: Json, pointer: Pointer) -> type[Document] | None:
    kind: Any = _event_type(event)
    for step in pointer:
        kind = _below(kind, step)
    return kind.cls if isinstance(kind, inspect.StructType) and issubclass(kind.cls, Document) else None


def _below(kind: Any, step: str | int) -> Any:
    if isinstance(kind, _Record):
        return kind.payload if step == "payload" else _below(kind.record, step)
    match kind:
        case inspect.StructType():
            return _plain(next(field.type for field in kind.fields if field.encode_name == step))
        case inspect.VarTupleType() | inspect.ListType():
            return _plain(kind.item_type)
        case inspect.DictType():
            return _plain(kind.value_type)
        case _:
            return None


def _plain(kind: inspect.Type) -> inspect.Type:
    """A type without what is said beside it, and without None."""
    while isinstance(kind, inspect.Metadata):
        kind = kind.type
    if isinstance(kind, inspect.UnionType):
        others = [each for each in kind.types if not isinstance(each, inspect.NoneType)]
        numbers = all(isinstance(each, inspect.IntType | inspect.FloatType) for each in others)
        return _plain(others[0]) if len(others) == 1 or numbers else kind
    return kind


def _bytes_of(value: Any, kind: type[Document] | None) -> bytes | None:
    try:
        return codec.encode(msgspec.convert(value, kind)) if kind is not None else None
    except msgspec.ValidationError:
        return None


def _changes(value: Any, kind: Any, pointer: Pointer, others: Mapping[str, str]) -> Iterator[_Change]:
    """Each change of what lies at ``pointer``, and below it."""
    if isinstance(kind, _Record):
        for field in kind.record.fields:
            if field.encode_name in LINKS or field.encode_name == "event_type":
                continue
            inner = kind.payload if field.encode_name == "payload" else _plain(field.type)
            yield from _of_field(value, field, inner, pointer, others)
        return
    match kind:
        case inspect.StructType(fields=fields):
            for field in fields:
                yield from _of_field(value, field, _plain(field.type), pointer, others)
        case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
            yield from _of_list(value, _plain(item), pointer, others)
        case inspect.DictType(value_type=item):
            for name in value:
                yield _Change((*pointer, name), DROPPED, "left out")
                yield from _changes(value[name], _plain(item), (*pointer, name), others)
        case _:
            for new, words in _values(value, kind, others):
                yield _Change(pointer, new, words)


def _of_field(value: Json, field: inspect.Field, kind: Any, pointer: Pointer, others: Mapping[str, str]) -> Iterator[_Change]:
    name = field.encode_name
    place = (*pointer, name)
    optional = not field.required or isinstance(field.type, inspect.UnionType)
    there = value.get(name)
    if there is None:
        if optional:
            yield from _added(field, kind, place)
        return
    if optional and (field.default is msgspec.NODEFAULT or there != field.default):
        yield _Change(place, DROPPED if not field.required else None, "left out")
    yield from _changes(there, kind, place, others)


def _added(field: inspect.Field, kind: Any, place: Pointer) -> Iterator[_Change]:
    """A simple field that had its default gets another value."""
    match kind:
        case inspect.BoolType():
            yield _Change(place, not field.default, "flipped")
        case inspect.IntType():
            yield _Change(place, (field.default if isinstance(field.default, int) else 0) + 1, "added")
        case inspect.FloatType():
            yield _Change(place, 1.5, "added")
        case inspect.LiteralType(values=values):
            for each in values:
                if each != field.default:
                    yield _Change(place, each, f"added {each}")
        case inspect.StrType(pattern=None):
            yield _Change(place, "something else", "added")
        case _:
            pass


def _of_list(value: list[Any], kind: Any, pointer: Pointer, others: Mapping[str, str]) -> Iterator[_Change]:
    if value:
        yield _Change(pointer, value[1:], "first left out")
        yield _Change(pointer, value[:-1], "last left out")
        yield _Change(pointer, [*value, value[-1]], "last twice")
    for number, each in enumerate(value):
        yield from _changes(each, kind, (*pointer, number), others)


def _values(value: Any, kind: Any, others: Mapping[str, str]) -> Iterator[tuple[Any, str]]:
    """Other values of the same kind."""
    if isinstance(value, bool):
        yield not value, "flipped"
    elif isinstance(value, int | float):
        yield value + 1, "one more"
        yield value + LARGE, "many more"
        if value >= 1:
            yield value - 1, "one less"
        elif value > 0:
            yield value / 2, "half"
    elif isinstance(kind, inspect.LiteralType):
        yield from ((each, f"to {each}") for each in kind.values if each != value)
    elif isinstance(value, str):
        yield from ((each, f"to {each[:60]!r}") for each in _texts(value, others))


def _texts(value: str, others: Mapping[str, str]) -> Iterator[str]:
    if moment_of(value) is not None:
        yield from TIMES
    elif _DIGEST.fullmatch(value) is not None:
        yield others[value]
        if value.startswith("artifact:"):
            yield OTHER_FILE
    else:
        yield _another(value)


def _another(text: str) -> str:
    """A text of the same form: its last letter or digit is another one."""
    for place in range(len(text) - 1, -1, -1):
        char = text[place]
        if char.isascii() and char.isalnum():
            return f"{text[:place]}{_NEXT[char]}{text[place + 1 :]}"
    return f"{text}x"


_ROWS = ("0123456789", "abcdef", "ghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_NEXT = {char: follower for row in _ROWS for char, follower in zip(row, row[1:] + row[0], strict=True)}


def _others(story: BundleStory) -> dict[str, str]:
    """For each digest of the story, bare or in a URI, another one of it of the same form."""
    found = sorted({match[0] for match in _DIGEST.finditer(msgspec.json.encode(story.events).decode())})
    kept = [each for each in found if each.startswith("artifact:") and each[-64:] in story.blobs]
    bare = [each for each in found if not each.startswith("artifact:")]
    others = dict(zip(bare, bare[1:] + bare[:1], strict=True))
    others |= dict(zip(kept, kept[1:] + kept[:1], strict=True))
    for each in found:
        others.setdefault(each, kept[0] if kept else each)
        if each.startswith("artifact:"):
            others.setdefault(each[-64:], others[each][-64:])
    return others


def _of_artifacts(story: BundleStory, others: Mapping[str, str]) -> Iterator[Mutation]:
    """Each artifact that an event names, by where it is named first: a field of it where it is JSON, else its last line."""
    text = msgspec.json.encode(story.events).decode()
    for digest, data in story.blobs.items():
        uri = f"artifact:sha256:{digest}"
        if uri not in text:
            continue
        document = f"artifact:{_first_place(story, uri)}"
        for pattern, words, new in _other_contents(data, others):
            yield Mutation(document, pattern, words, partial(_with_artifact, story, digest, new))


def _with_artifact(story: BundleStory, digest: str, new: bytes) -> BundleStory:
    name = hashlib.sha256(new).hexdigest()
    return replace(story, blobs={**story.blobs, name: new}).renamed({digest: name})


def _first_place(story: BundleStory, uri: str) -> str:
    for event in story.events:
        for pointer, holder in _places(event["payload"], uri, (), {}):
            kind = holder.get("name") if pointer and pointer[-1] == "uri" else None
            return f"{name_of(event)}{pattern_of(pointer)}{f'[{kind}]' if kind else ''}"
    raise AssertionError(uri)


def _places(value: Any, uri: str, pointer: Pointer, holder: Json) -> Iterator[tuple[Pointer, Json]]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _places(each, uri, (*pointer, name), value)
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _places(each, uri, (*pointer, number), holder)
    elif value == uri:
        yield pointer, holder


def _other_contents(data: bytes, others: Mapping[str, str]) -> Iterator[tuple[str, str, bytes]]:
    try:
        value = json.loads(data)
    except ValueError:
        value = None
    if isinstance(value, dict):
        for pointer, leaf in _leaves(value, ()):
            for new, words in _values(leaf, None, _Anything(others)):
                yield pattern_of(pointer), words, msgspec.json.encode(_put(value, pointer, new), order="sorted")
        return
    end = b"\0" if data.endswith(b"\0") else b"\n"
    yield "", "a line more", data + b"+one more" + end
    if data:
        lines = data.removesuffix(end).split(end)
        yield "", "a line less", b"".join(line + end for line in lines[:-1])


class _Anything(dict[str, str]):
    """Another digest for any."""

    def __missing__(self, key: str) -> str:
        return _another(key)


def _leaves(value: Any, pointer: Pointer) -> Iterator[tuple[Pointer, Any]]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _leaves(each, (*pointer, name))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _leaves(each, (*pointer, number))
    else:
        yield pointer, value


def _get(value: Any, pointer: Pointer) -> Any:
    for step in pointer:
        value = value[step]
    return value


def _put(value: Any, pointer: Pointer, new: Any) -> Any:
    """The same document with another value at a place."""
    if not pointer:
        return new
    step, rest = pointer[0], pointer[1:]
    if isinstance(value, list):
        assert isinstance(step, int)
        return [*value[:step], _put(value[step], rest, new), *value[step + 1 :]]
    if not rest and new is DROPPED:
        return {name: each for name, each in value.items() if name != step}
    return {**value, step: _put(value.get(step), rest, new)}
