"""Whether a value may be a credential, judged by its characters alone. Pure, and linear in the value."""

from __future__ import annotations

import base64
import binascii
import re
from itertools import pairwise
from typing import Final

#: Made at random, a token of that many letters has digits; a name such as ``sk-toggleable__content`` has none.
FEWEST_DIGITS: Final = 2
#: Words that no random value contains: documentation and fixtures use them on purpose.
_PLACEHOLDER = re.compile(r"example|placeholder|dummy|changeme|redacted|x{4}|\.{3}|not[-_]?a?[-_]?real", re.IGNORECASE)  # noqa: TID251 - linear: each try ends where the next one begins
#: Values that standards print (RFC 6749, RFC 6750, RFC 7009); programs and their tests copy them.
_PUBLISHED: Final = frozenset(
    {"2YotnFZFEjr1zCsicMWpAA", "tGzv3JOkF0XG5Qx2TlKWIA", "gX1fBat3bV", "7Fjfp0ZBr1KtDRbnfVdmIw", "mF_9.B5f-4.1JqM"}
)
#: Words of example passwords: ``Passw0rd123!``, ``my-secret-token``. Longer ones first.
_SHOWN_WORDS = re.compile(  # noqa: TID251 - linear: alternatives of a fixed length
    r"password|passphrase|passwd|postgres|username|insecure|changeit|default|example|letmein|qwerty|secret|docker|"
    r"sample|string|hunter|change|tester|value|admin|mysql|redis|guest|token|login|valid|wrong|hello|world|local|pass|test|"
    r"user|root|demo|fake|some|your|this|that|word|key|the|and|foo|bar|baz|qux|abc|xyz|api|pwd|my|me"
)
_LEET = str.maketrans("013457@$", "oleastas")
#: Signs of a reference to a value, or of a template: the value itself is elsewhere.
_REFERS = re.compile(r"\$[A-Za-z{(]|[<>{}()\[\]`\\]|%[sd(]|::|->|os\.|env\.|(?:^|/)secrets?/")  # noqa: TID251 - linear: of a fixed length
#: A name of a program, such as ``self.ssl_keyfile_password``.
_NAME = re.compile(r"[A-Za-z]+[._][A-Za-z._]+")  # noqa: TID251 - linear: two runs of which one ends where the other begins
#: Values that are no secret under any name.
_PLAIN_WORDS: Final = frozenset({"true", "false", "null", "none", "nil", "undefined", "yes", "no", "[]", "{}"})
_NUMBER = re.compile(r"[0-9]{1,12}(?:[.,][0-9]{1,3}){0,4}")  # noqa: TID251 - linear: of a fixed length
_DIRECTORY = re.compile(r"(?:~|[A-Za-z]:)?[/\\][^\n]*")  # noqa: TID251 - linear: one run
#: Suffixes of names whose value describes a secret. A file or a path of a secret is its location.
_ABOUT = re.compile(  # noqa: TID251 - linear: alternatives at one place
    r".*[_-](?:type|count|limit|budget|found|expired|expires|missing|required|changed|name|file|path|length|policy|ttl|"
    r"expires_in|expires_at|invalid|unknown|url|uri|endpoint|scan_failed)",
    re.DOTALL,
)
_LONGEST_ABOUT: Final = 60
#: Maximum number of changes required of a long value.
_MOST_CHANGES_ASKED: Final = 6
_SHORTEST_CHOSEN, _LONGEST_CHOSEN = 8, 64
#: Names with a number, versions, dates, places: ``utf-8-sig1``, ``v1.2.3``, ``2024-01-02T03:04``, ``/var/run1``.
_PLAIN_FORM = re.compile(  # noqa: TID251 - linear: each run ends where the next one begins
    r"[a-z]+(?:[-_.][a-z]+)*[-_.]?[0-9]{1,3}(?:[-_.][a-z0-9]+)*|v?[0-9]+(?:[.:T_-][0-9A-Za-z]+)+|[/~.][^\s]*"
    r"|\w+://.*|[A-Z0-9_]+|[A-Za-z0-9_]+\([^)]*\)?.*"
)
#: Letters that remain of a value made of example words.
_FEWEST_LETTERS_LEFT: Final = 4


def looks_random(value: str) -> bool:
    """Return whether ``value`` may be generated rather than a word: long, of letters and digits, no placeholder."""
    digits = sum(char.isdigit() for char in value)
    letters = sum(char.isalpha() for char in value)
    return len(value) >= 10 and digits >= FEWEST_DIGITS and letters >= 4 and not is_placeholder(value)


def is_placeholder(value: str) -> bool:
    """Return whether ``value`` marks itself as a placeholder, as ``AKIAIOSFODNN7EXAMPLE`` does."""
    return _PLACEHOLDER.search(value) is not None


def is_shown(value: str) -> bool:
    """Return whether ``value`` is an example or a reference: ``${PASSWORD}``, ``Passw0rd!``, ``hunter2``."""
    if value in _PUBLISHED or is_placeholder(value) or _REFERS.search(value) is not None or _NAME.fullmatch(value):
        return True
    plain = value.lower().strip("0123456789!?.").translate(_LEET)
    rest = _SHOWN_WORDS.sub("", plain)
    return rest != plain and sum(char.isalpha() for char in rest) < _FEWEST_LETTERS_LEFT


def looks_generated(value: str, shortest: int = 8) -> bool:
    """Return whether character kinds alternate in ``value`` as in no word: ``FljXGzZ4``, but not ``MySecretPass12``.

    A capital letter at the start of a word is no alternation.
    """
    if len(value) < shortest or is_shown(value):
        return False
    kinds = [_char_kind(char) for char in value]
    changes = sum(one != two and (one, two) != ("A", "a") for one, two in pairwise(kinds))
    mixed = len({"A", "a", "0"}.intersection(kinds))
    fewest = (len(value), 3, 2)[max(mixed - 1, 0)]  # letters of one kind are words, however they are joined
    return changes >= max(fewest, min(len(value) // 4, _MOST_CHANGES_ASKED))


def is_chosen_password(value: str) -> bool:
    """Return whether a person may have chosen ``value`` as a password: words with digits and a capital letter or a sign.

    ``Summer2024!`` is one. Examples of documentation, names, places and references are not.
    """
    if not _SHORTEST_CHOSEN <= len(value) <= _LONGEST_CHOSEN or is_shown(value) or not value.isprintable():
        return False
    digits = sum(char.isdigit() for char in value)
    letters = sum(char.isalpha() for char in value)
    apart = any(char.isupper() for char in value) or any(not char.isalnum() for char in value)
    return letters >= _FEWEST_LETTERS_LEFT and digits >= FEWEST_DIGITS and apart and _PLAIN_FORM.fullmatch(value) is None


def is_strong(value: str) -> bool:
    """Return whether ``value`` is long and generated from capital letters, small letters and digits."""
    return {"A", "a", "0"} <= {_char_kind(char) for char in value} and looks_generated(value, 12)


def states_fact(name: str, value: str) -> bool:
    """Return whether ``value`` describes a secret called ``name`` without being one: a number of tokens, a type, a
    directory."""
    small = name.lower()
    if value.lower() in _PLAIN_WORDS or "tokeniz" in small:
        return True
    if "tokens" in small and _NUMBER.fullmatch(value):
        return True
    if small.endswith("pwd") and _DIRECTORY.fullmatch(value):
        return name.endswith("PWD") or not any(looks_generated(part) for part in value.split("/"))
    about = _ABOUT.fullmatch(small[-_LONGEST_ABOUT:])
    return about is not None and not looks_random(value) and not looks_generated(value)


def password_in_base64(value: str) -> str:
    """The password of ``user:password`` in base64; empty when ``value`` is no such thing."""
    digits = value.rstrip("=")
    try:
        text = base64.b64decode(digits + "=" * (-len(digits) % 4), validate=True).decode("ascii")
    except (binascii.Error, UnicodeDecodeError):
        return ""
    user, _, password = text.partition(":")
    return password if user and text.isprintable() else ""


def _char_kind(char: str) -> str:
    if char.isdigit():
        return "0"
    if not char.isalpha():
        return "-"
    return "A" if char.isupper() else "a"
