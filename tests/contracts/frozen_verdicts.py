"""The schemas against those of an earlier state, on documents made at random.

``python -m tests.contracts.frozen_verdicts 100000`` compares that many. ``frozen_schemas.json`` has the schemas as they were
before they were generated from the structs, without their texts. What they accept is accepted for good: within ``v1`` every
old document stays valid.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.protocols import Validator
from referencing import Registry, Resource

from gatewright.contracts import codec, schemas
from gatewright.contracts.strict_json import parse
from gatewright.errors import MalformedError
from gatewright.resources import schema_directory
from tests.contracts.generated import FOREIGN_KEYS, STRANGERS, Json

FROZEN: dict[str, Any] = json.loads(Path(__file__).with_name("frozen_schemas.json").read_bytes())
#: What a schema that has gained a field or a value no longer refuses.
RELAXED = {"additionalProperties", "enum"}
Place = tuple[str, str]


@cache
def frozen_validator(name: str) -> Validator:
    registry: Registry[Any] = Registry().with_resources(
        (f"{other}.json", Resource.from_contents(schema)) for other, schema in FROZEN.items()
    )
    return Draft202012Validator(FROZEN[name], registry=registry)


def compare(name: str, value: Json) -> str:
    """``equal``, or ``relaxed`` where a field or a value was added. Raises AssertionError where a verdict is another.

    Which faults a report names when there are more than it may hold is not compared.
    """
    old = places(frozen_validator(name), value)
    new = places(schemas.validator(name), value)
    assert not (new and accepted(name, value)), (name, sorted(new), value)
    if old == new or len(old) >= schemas.MAX_FAULTS <= len(new):
        return "equal"
    gone = old - new
    assert gone, (name, sorted(new), value)
    assert {code for _, code in gone} <= RELAXED, (name, sorted(gone), value)
    return "relaxed"


def places(validator: Validator, value: Json) -> set[Place]:
    """Where the schema finds a fault, and of which kind; one value alone is ``const`` or ``enum``, which is the same."""
    return {(fault.pointer, fault.code.replace("const", "enum")) for fault in schemas.faults_of(validator, value)}


def accepted(name: str, value: Json) -> bool:
    """Whether the struct takes it. Numbers that JSON cannot hold are not tried."""
    try:
        codec.decode_named(json.dumps(value).encode(), name)
    except MalformedError:
        return False
    return True


def made(seed: int) -> Iterator[tuple[str, Json]]:
    """Documents without end: examples with up to two things done to them."""
    chance = random.Random(seed)  # noqa: S311 - the same documents on every machine
    names = sorted(FROZEN)
    while True:
        name = chance.choice(names)
        value = json.loads(chance.choice(examples(name)))
        for _ in range(chance.choice((0, 1, 1, 2))):
            value = changed(chance, value)
        data = json.dumps(value).encode()
        if is_json(data):
            yield name, json.loads(data)


def is_json(data: bytes) -> bool:
    """Whether a schema is asked at all: numbers without end and lone surrogates are refused before."""
    try:
        parse(data)
    except MalformedError:
        return False
    return True


@cache
def examples(name: str) -> list[bytes]:
    """The valid ones, five times each, and the invalid ones."""
    folder = schema_directory() / "examples" / name
    valid, invalid = (sorted(folder.glob(f"{kind}/*.json")) for kind in ("valid", "invalid"))
    return [path.read_bytes() for path in (*valid * 5, *invalid)]


def changed(chance: random.Random, node: Json) -> Json:
    """``node`` with one thing in it that is not what it was: any node of the tree as likely as its depth allows."""
    if isinstance(node, dict | list) and node and chance.random() < 0.8:
        key = chance.choice(sorted(node)) if isinstance(node, dict) else chance.randrange(len(node))
        inner = changed(chance, node[key])
        if isinstance(node, dict):
            return node | {key: inner}
        return [inner if index == key else each for index, each in enumerate(node)]
    return chance.choice(changes(chance, node))()


def changes(chance: random.Random, node: Json) -> list[Callable[[], Json]]:
    odd: list[Callable[[], Json]] = [lambda: chance.choice(STRANGERS)]
    if isinstance(node, dict):
        odd.append(lambda: node | {chance.choice(FOREIGN_KEYS): chance.choice(STRANGERS)})
        if node:
            gone = chance.choice(sorted(node))
            odd += [lambda: {key: each for key, each in node.items() if key != gone}, lambda: node | {gone: None}]
    elif isinstance(node, list):
        odd += [
            list,
            lambda: node * 2,
            lambda: [*node, chance.choice(STRANGERS)],
            lambda: node * chance.choice((9, 17, 65, 130)),
        ]
    elif isinstance(node, str):
        odd += [
            lambda: node + "\n",
            lambda: node[:-1],
            node.swapcase,
            lambda: node * chance.choice((2, 20, 300)),
            lambda: node[: len(node) // 2] + chance.choice("\x00 /*é😀\u2028") + node[len(node) // 2 :],
        ]
    elif isinstance(node, int | float) and not isinstance(node, bool) and abs(node) < 1e300:
        odd += [
            lambda: -node,
            lambda: node + 1,
            lambda: node - 1,
            lambda: node * chance.choice((0, 10, 1000, 10**9)),
            lambda: float(node),
        ]
    return odd


def main(number: int, seed: int) -> None:
    verdicts: Counter[str] = Counter()
    refused = 0
    documents = made(seed)
    for _ in range(number):
        name, value = next(documents)
        verdicts[compare(name, value)] += 1
        refused += not accepted(name, value)
    sys.stdout.write(f"{number} documents from seed {seed}: {dict(verdicts)}; {refused} of them are refused\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
