"""Redaction of everything that leaves a process: log lines, error messages, dead-letter reasons.

Two safeguards: a value whose key names a secret is removed completely; in any other text, everything with the shape of a
credential. ``[redacted:<rule>]`` replaces every hit. It is a last safeguard and no proof: known secrets are never logged.
The shapes are those of ``gatewright/secrets/rules.py``. It never raises, and its time is linear in the text.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Iterable, Mapping
from datetime import date
from functools import lru_cache
from pathlib import PurePath
from typing import Any

import msgspec

from gatewright.secrets.rules import RULES, may_hold_one
from gatewright.secrets.values import states_fact

#: A text longer than this is cut, a deeper nesting is not followed, further items are left out: a log line stays a line.
MAX_TEXT = 16_384
MAX_DEPTH = 8
MAX_ITEMS = 200
#: Redaction looks this much further than the cut, so that a credential which the cut halves is still known by its shape.
_OVERLAP = 4_096
_MAX_JSON_INTEGER = 2**63 - 1
#: Characters of a key that is remembered: a name of ours, not a text.
_SHORT_KEY = 16

#: A key is secret if one of its words is here, or if it contains one of the joined forms.
_SECRET_WORDS = frozenset(
    {"auth", "authorization", "bearer", "cookie", "cookies", "credential", "credentials", "jwt", "nkey", "passphrase", "passwd"}
    | {"password", "passwords", "pwd", "secret", "secrets", "seed", "token", "tokens"}
)
_SECRET_FORMS = (
    "accesskey",
    "accesstoken",
    "apikey",
    "authtoken",
    "password",
    "privatekey",
    "secret",
    "sessionid",
    "signingkey",
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")  # noqa: TID251 - linear: each try ends where the next one begins


def is_secret_key(key: str) -> bool:
    """Return whether ``key`` names a secret, in any of the usual spellings: ``api_key``, ``X-Api-Key``, ``clientSecret``."""
    words = [word.lower() for word in _WORD.findall(key[:200])]
    joined = "".join(words)
    return not _SECRET_WORDS.isdisjoint(words) or any(form in joined for form in _SECRET_FORMS)


@lru_cache(maxsize=512)
def _shown_key(key: str) -> tuple[str, bool]:
    """Return a key as displayed, and whether it names a secret; cached because log lines repeat the same few keys."""
    return redact_text(key), is_secret_key(key)


def redact_text(text: str) -> str:
    """Return ``text`` without credentials by shape, at most MAX_TEXT characters of it, encodable as UTF-8."""
    text = text[: MAX_TEXT + _OVERLAP].encode("utf-8", "backslashreplace").decode()
    if may_hold_one(text):
        for rule in RULES:
            text = rule.redact(text)
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "[cut]"


def redact(value: Any) -> Any:
    """Return ``value`` as plain JSON-able data with its secrets replaced, at any depth.

    Documents and dataclasses become dictionaries; an object of an unknown type becomes its type's name, since its ``repr``
    may show anything.
    """
    return _redact(value, 0)


def _redact(value: Any, depth: int) -> Any:
    if isinstance(value, enum.Enum):
        value = value.value
    if value is None or isinstance(value, bool | float | int):
        return value if not isinstance(value, int) or abs(value) <= _MAX_JSON_INTEGER else "[large integer]"
    text = _text_of(value)
    if text is not None:
        return redact_text(text)
    return _redact_nested(value, depth + 1)


def _redact_nested(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        return "[nested too deep]"
    fields = _fields_of(value)
    if fields is not None:
        return _redact_fields(fields, depth)
    if isinstance(value, list | tuple | set | frozenset):
        return _redact_items(value, depth)
    return f"[{type(value).__module__}.{type(value).__qualname__}]"


def _text_of(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray):
        return bytes(value[: MAX_TEXT + _OVERLAP]).decode("utf-8", "backslashreplace")
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {value}"
    return None


def _fields_of(value: Any) -> Iterable[tuple[Any, Any]] | None:
    if isinstance(value, Mapping):
        return value.items()
    if isinstance(value, msgspec.Struct):
        return ((name, getattr(value, name)) for name in value.__struct_fields__)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
    return None


def _redact_fields(fields: Iterable[tuple[Any, Any]], depth: int) -> dict[str, Any]:
    redacted: dict[str, Any] = {}
    for name, value in fields:
        if len(redacted) == MAX_ITEMS:
            redacted["..."] = "[more left out]"
            break
        key = name if isinstance(name, str) else str(_redact(name, depth))
        shown, secret = _shown_key(key) if len(key) <= _SHORT_KEY else (redact_text(key), is_secret_key(key))
        redacted[shown] = "[redacted:key]" if secret and _may_be_secret(key, value) else _redact(value, depth)
    return redacted


def _redact_items(items: Iterable[Any], depth: int) -> list[Any]:
    redacted: list[Any] = []
    for item in items:
        if len(redacted) == MAX_ITEMS:
            redacted.append("[more left out]")
            break
        redacted.append(_redact(item, depth))
    return redacted


def _may_be_secret(key: str, value: Any) -> bool:
    """Return False for a number or a flag (``tokens: 1200`` is a budget), an empty value and a directory (``PWD``)."""
    if isinstance(value, str):
        return value != "" and not states_fact(key[:200], value[:MAX_TEXT])
    return not (value is None or isinstance(value, bool | int | float) or value == b"")
