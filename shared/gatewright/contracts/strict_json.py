"""JSON as two strangers can agree on it: I-JSON (RFC 7493). It knows nothing of schemas."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from gatewright.errors import Fault, MalformedError

#: Objects and arrays inside each other. RFC 8259 section 9 lets a reader set a limit; this one is far from recursion's.
MAX_DEPTH = 100
#: A longer pointer is cut, and so is a longer message: what a stranger sends must not fill a report.
MAX_WORDS = 300

Path = tuple[str | int, ...]


def parse(data: bytes) -> Any:
    """``data`` as plain Python values: UTF-8 without a byte order mark, no key twice in an object, finite numbers.

    Raises MalformedError with one fault, ``not_json``, ``duplicate_key`` or ``too_deep``.
    """
    repeated: list[_Repeated] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) != len(pairs):
            repeated.append(made := _Repeated(made))
            made.pairs = pairs
        return made

    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=unique, parse_float=_finite, parse_constant=_refuse_constant)
        _check_depth(value)
        json.dumps(value, ensure_ascii=False).encode("utf-8")  # a lone surrogate has no UTF-8 form
    except RecursionError:
        raise _malformed_error(Fault("", "too_deep", f"nested deeper than {MAX_DEPTH} levels")) from None
    except ValueError as error:
        raise _malformed_error(Fault("", "not_json", f"not JSON: {error}"[:MAX_WORDS])) from None
    if repeated:
        last = repeated[-1]  # an earlier one may lie in what a later one dropped
        key = Counter(name for name, _ in last.pairs).most_common(1)[0][0]
        path = _path_to(last, value) or ()
        raise _malformed_error(Fault(pointer((*path, key)), "duplicate_key", "stands twice in its object"))
    return value


def is_shallow(data: bytes) -> bool:
    """Return whether ``data`` is shallow enough, without parsing it: it opens few objects and arrays."""
    return data.count(b"{") + data.count(b"[") <= MAX_DEPTH


def pointer(path: Iterable[str | int]) -> str:
    """The RFC 6901 JSON pointer of a path of keys and indices."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)[:MAX_WORDS]


def _malformed_error(fault: Fault) -> MalformedError:
    return MalformedError(f"{fault.pointer or '/'}: {fault.message}", faults=(fault,))


class _Repeated(dict[str, Any]):
    """An object in which a key stood twice; ``pairs`` is what stood there."""

    pairs: Sequence[tuple[str, Any]] = ()


def _check_depth(value: Any) -> None:
    """Level by level, so that it cannot itself go too deep. Raises RecursionError."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [node for node in level if isinstance(node, dict | list)]
        if not level:
            return
        level = [child for node in level for child in (node.values() if isinstance(node, dict) else node)]
    raise RecursionError


def _path_to(wanted: object, node: Any) -> Path | None:
    if node is wanted:
        return ()
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        if (path := _path_to(wanted, child)) is not None:
            return (key, *path)
    return None


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError("a number does not fit into a double")
    return number


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")
