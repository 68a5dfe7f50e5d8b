"""Takes secrets out of whatever is about to leave a process: log lines, error messages, dead-letter reasons.

Two nets: a value whose key names a secret goes whole; in any other text, what has the shape of a credential goes. Every hit
is replaced by ``[redacted:<rule>]``. It is a last net and no proof of absence: what is known to be secret is not logged at all.
It never raises, and its time is linear in the text, because hostile text reaches it: no pattern asks for anything after an
unbounded run in which it could start again.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import PurePath
from typing import Any, NamedTuple

import msgspec

#: A text longer than this is cut, a deeper nesting is not followed, further items are left out: a log line stays a line.
MAX_TEXT = 16_384
MAX_DEPTH = 8
MAX_ITEMS = 200
#: Redaction looks this much further than the cut, so that a credential which the cut halves is still known by its shape.
_OVERLAP = 4_096
_MAX_JSON_INTEGER = 2**63 - 1


class Rule(NamedTuple):
    """``pattern`` finds a credential; ``replacement`` is a template for ``Match.expand``."""

    name: str
    pattern: re.Pattern[str]
    replacement: str


def _rule(name: str, pattern: str, *, keep: str = "", end: str = "") -> Rule:
    return Rule(name, re.compile(pattern, re.ASCII), f"{keep}[redacted:{name}]{end}")


#: Words that make an assignment (``password=...``, ``"api_key": ...``, ``--token ...``) secret. Longer ones first.
_ASSIGNED = (
    r"(?i:passwords?|passwd|passphrase|pwd|secrets?|tokens?|credentials?"
    r"|api[_-]?keys?|access[_-]?keys?|private[_-]?keys?|signing[_-]?keys?|cookie|[_-]pass|_auth)"
)
#: The value of an assignment: quoted up to its quote (escaped quotes included), else up to white space or a separator.
_VALUE = r"""(?:\\?"(?:[^"\\]|\\(?!").)*\\?"?|'[^'\n]*'?|[^\s"',;&)}\]]+)"""

#: In this order; a replacement is not looked at again by the rules after it, because it holds none of their shapes.
RULES: tuple[Rule, ...] = (
    _rule(
        "private_key",
        r"-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----(?s:.*?)"
        r"(?:-----END (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----|\Z)",
    ),
    # ``git@`` and the like, a bare name before the host of an ssh URL, is no secret.
    _rule("url_credentials", r"://(?!(?<=ssh://)[\w.-]+@(?![^\s/]*@))[^\s/]+@", keep="://", end="@"),
    _rule(
        "authorization",
        r"""(?P<name>(?i:authorization)\\?["']?\s{0,4}[:=]\s{0,4})\\?["']?[^\n"'\\]+""",
        keep=r"\g<name>",
    ),
    _rule("bearer", r"(?P<scheme>(?i:bearer)\s{1,4})[A-Za-z0-9._~+/=-]{6,}", keep=r"\g<scheme>"),
    _rule("github_token", r"(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,})"),
    _rule("gitlab_token", r"gl[a-z]{2,6}-[A-Za-z0-9_-]{16,}"),
    _rule("slack_token", r"xox[a-z]-[A-Za-z0-9-]{10,}"),
    _rule("model_key", r"\bsk-[A-Za-z0-9_-]{16,}"),
    _rule("payment_key", r"[rs]k_(?:live|test)_[A-Za-z0-9]{10,}"),
    _rule("registry_token", r"(?:pypi-[A-Za-z0-9_-]{16,}|npm_[A-Za-z0-9]{30,})"),
    _rule("google_key", r"AIza[A-Za-z0-9_-]{35}"),
    _rule("aws_key", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _rule("nats_seed", r"\bS[ACNOUX][A-Z2-7]{56}(?![A-Za-z0-9])"),
    _rule("jwt", r"eyJ[A-Za-z0-9_-]{14,}(?:\.[A-Za-z0-9_-]*){0,2}"),
    _rule(
        "assignment",
        rf"""(?P<name>{_ASSIGNED}[A-Za-z0-9_-]{{0,40}}(?:\\?["']?\s{{0,4}}[:=]\s{{0,4}}))(?!\[redacted:){_VALUE}""",
        keep=r"\g<name>",
    ),
    _rule("option", rf"(?P<name>--{_ASSIGNED}\s{{1,4}})(?!\[redacted:){_VALUE}", keep=r"\g<name>"),
)

#: A key is secret when one of its words is here, or when it contains one of the joined forms.
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
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def is_secret_key(key: str) -> bool:
    """Whether ``key`` names something secret, in any of the usual spellings: ``api_key``, ``X-Api-Key``, ``clientSecret``."""
    words = [word.lower() for word in _WORD.findall(key[:200])]
    joined = "".join(words)
    return not _SECRET_WORDS.isdisjoint(words) or any(form in joined for form in _SECRET_FORMS)


def redact_text(text: str) -> str:
    """``text`` without anything that has the shape of a credential, at most MAX_TEXT characters of it, encodable as UTF-8."""
    text = text[: MAX_TEXT + _OVERLAP].encode("utf-8", "backslashreplace").decode()
    for rule in RULES:
        text = rule.pattern.sub(rule.replacement, text)
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "[cut]"


def redact(value: Any) -> Any:
    """``value`` as plain JSON-able data with its secrets replaced, however deep they lie.

    Documents and dataclasses become dictionaries; an object of an unknown type becomes its type's name, since its ``repr`` may
    show anything.
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
        redacted[redact_text(key)] = "[redacted:key]" if is_secret_key(key) and _may_be_secret(value) else _redact(value, depth)
    return redacted


def _redact_items(items: Iterable[Any], depth: int) -> list[Any]:
    redacted: list[Any] = []
    for item in items:
        if len(redacted) == MAX_ITEMS:
            redacted.append("[more left out]")
            break
        redacted.append(_redact(item, depth))
    return redacted


def _may_be_secret(value: Any) -> bool:
    """Not a number or a flag: ``tokens: 1200`` is a budget; nor is an empty value anything to hide."""
    return not (value is None or isinstance(value, bool | int | float) or value in ("", b""))
