"""The shapes of credentials, in one list for everything that looks for them: logs, outputs, reports, patches.

Time is linear in the text, because hostile text reaches it: no pattern asks for anything after an unbounded run in which it
could start again. A rule is *precise* when the form of the value alone says what it is; the others look at words around a
value, which is right where a false alarm costs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple


class SecretRule(NamedTuple):
    """``pattern`` finds a credential; ``replacement`` is a template for ``Match.expand``.

    ``anchors``: texts of which one is in every match.
    """

    name: str
    pattern: re.Pattern[str]
    replacement: str
    precise: bool
    anchors: tuple[str, ...]


def _context(name: str, pattern: str, *anchors: str, keep: str = "", end: str = "") -> SecretRule:
    return SecretRule(name, re.compile(pattern, re.ASCII), f"{keep}[redacted:{name}]{end}", precise=False, anchors=anchors)  # noqa: TID251 - it looks around; see above why each is linear


def _precise(name: str, pattern: str, *anchors: str) -> SecretRule:
    return SecretRule(name, re.compile(pattern, re.ASCII), f"[redacted:{name}]", precise=True, anchors=anchors)  # noqa: TID251 - it looks around; see above why each is linear


#: White space, as ``re.ASCII`` has it.
_BLANKS = (" ", "\t", "\n", "\r", "\f", "\v")
#: Words that make an assignment (``password=...``, ``"api_key": ...``, ``--token ...``) secret. Longer ones first.
_ASSIGNED = (
    r"(?i:passwords?|passwd|passphrase|pwd|secrets?|tokens?|credentials?"
    r"|api[_-]?keys?|access[_-]?keys?|private[_-]?keys?|signing[_-]?keys?|cookie|[_-]pass|_auth)"
)
#: The value of an assignment: quoted up to its quote (escaped quotes included), else up to white space or a separator.
_VALUE = r"""(?:\\?"(?:[^"\\]|\\(?!").)*\\?"?|'[^'\n]*'?|[^\s"',;&)}\]]+)"""

#: In this order; a replacement is not looked at again by the rules after it, because it holds none of their shapes.
RULES: tuple[SecretRule, ...] = (
    _precise(
        "private_key",
        r"-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----(?s:.*?)"
        r"(?:-----END (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----|\Z)",
        "PRIVATE KEY",
    ),
    # ``git@`` and the like, a bare name before the host of an ssh URL, is no secret.
    _context("url_credentials", r"://(?!(?<=ssh://)[\w.-]+@(?![^\s/]*@))[^\s/]+@", "://", keep="://", end="@"),
    _context(
        "authorization",
        r"""(?P<name>(?i:authorization)\\?["']?\s{0,4}[:=]\s{0,4})\\?["']?[^\n"'\\]+""",
        *(":", "="),
        keep=r"\g<name>",
    ),
    _context("bearer", r"(?P<scheme>(?i:bearer)\s{1,4})[A-Za-z0-9._~+/=-]{6,}", *_BLANKS, keep=r"\g<scheme>"),
    _precise(
        "github_token",
        r"(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,})",
        *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
    ),
    _precise("gitlab_token", r"gl(?:pat|dt|rt|rtr|cbt|ptt|ft|imt|agent|soat|oas|ffct|wt)-[A-Za-z0-9_.-]{16,}", "gl"),
    _precise("slack_token", r"xox[a-z]-[A-Za-z0-9-]{10,}", "xox"),
    _precise("model_key", r"\bsk-[A-Za-z0-9_-]{16,}", "sk-"),
    _precise("payment_key", r"[rs]k_(?:live|test)_[A-Za-z0-9]{10,}", "k_live_", "k_test_"),
    _precise("registry_token", r"(?:pypi-[A-Za-z0-9_-]{16,}|npm_[A-Za-z0-9]{30,})", "pypi-", "npm_"),
    _precise("google_key", r"AIza[A-Za-z0-9_-]{35}", "AIza"),
    _precise("aws_key", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])", "AKIA", "ASIA", "ABIA", "ACCA"),
    _precise("nats_seed", r"\bS[ACNOUX][A-Z2-7]{56}(?![A-Za-z0-9])", "SA", "SC", "SN", "SO", "SU", "SX"),
    _precise("jwt", r"eyJ[A-Za-z0-9_-]{14,}(?:\.[A-Za-z0-9_-]*){0,2}", "eyJ"),
    _context(
        "assignment",
        rf"""(?P<name>{_ASSIGNED}[A-Za-z0-9_-]{{0,40}}(?:\\?["']?\s{{0,4}}[:=]\s{{0,4}}))(?!\[redacted:){_VALUE}""",
        *(":", "="),
        keep=r"\g<name>",
    ),
    _context("option", rf"(?P<name>--{_ASSIGNED}\s{{1,4}})(?!\[redacted:){_VALUE}", "--", keep=r"\g<name>"),
)

#: Small letters, digits and what joins them: most texts that are logged are ids, words and paths of these.
_QUIET = re.compile(r"[a-z0-9_.,/-]*")  # noqa: TID251 - linear: one class of characters
_QUIET_ANCHORS = tuple(anchor for rule in RULES for anchor in rule.anchors if _QUIET.fullmatch(anchor))


def may_hold_one(text: str) -> bool:
    """False when no rule can match anywhere in ``text``, as far as a glance tells."""
    # A match has one of the anchors in it, and where all characters are quiet ones, that is a quiet one.
    return _QUIET.fullmatch(text) is None or any(anchor in text for anchor in _QUIET_ANCHORS)


#: A private key without armour: the first bytes of its DER, for the usual algorithms.
_KEY_IN_DER = re.compile(  # noqa: TID251 - linear: of a fixed length
    # RSA: PKCS #1, and PKCS #8 with the algorithm's whole name (a certificate begins alike, and has another one there)
    rb"\x30\x82..\x02\x01\x00(?:\x02\x82..\x00|\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00\x04\x82)"
    # elliptic curves and Edwards curves in PKCS #8
    rb"|\x30(?:.|\x81.)\x02\x01\x00\x30.\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06"
    rb"|\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65[\x6e-\x71]\x04\x22\x04\x20",
    re.DOTALL,
)


def keys_in_der(data: bytes) -> Iterator[tuple[int, int]]:
    """Where private keys without armour begin and end in ``data``; those that overlap are one."""
    begin, stop = 0, 0
    for found in _KEY_IN_DER.finditer(data):
        start, first = found.start(), data[found.start() + 1]
        more = first - 0x80 if first > 0x80 else 0
        length = int.from_bytes(data[start + 2 : start + 2 + more], "big") if more else first
        end = min(max(start + 2 + more + length, found.end()), len(data))
        if start < stop:  # a length that is a lie holds others, each as long
            stop = max(stop, end)
            continue
        if stop:
            yield begin, stop
        begin, stop = start, end
    if stop:
        yield begin, stop
