"""Credentials that have no form of their own: the words before a value name it, and the value must look generated.

``password=``, a line of a ``.netrc``, a URL with a password. One pattern looks for all of them in one go.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from gatewright.patterns import BytesPattern
from gatewright.secrets.values import is_shown, is_strong, looks_generated, password_in_base64

_SHORTEST_PASSWORD: Final = 6
_AWS_SECRET: Final = 40
_LONGEST: Final = 512
_HEX_LENGTHS: Final = (32, 64, 96, 128)


class NamedValue(NamedTuple):
    """``pattern`` has one group, the value; letters of both cases are the same to it. ``judge`` decides on the value."""

    name: str
    pattern: str
    judge: Callable[[str], bool]


def _is_aws_secret(value: str) -> bool:
    return len(value) == _AWS_SECRET and is_strong(value)


def _is_password_of_url(value: str) -> bool:
    return looks_generated(urllib.parse.unquote(value, "latin-1"))


def _is_docker_login(value: str) -> bool:
    password = password_in_base64(value)
    return len(password) >= _SHORTEST_PASSWORD and not is_shown(password)


def _is_basic_login(value: str) -> bool:
    return looks_generated(password_in_base64(value))


def _is_hex_key(value: str) -> bool:
    return len(value) in _HEX_LENGTHS and looks_generated(value)


#: Between a name and its value: ``=``, ``: ``, ``" => "``, ``">`` of XML.
_SEP: Final = r"""\\?["']?\s{0,4}(?::=|=>|[:=>,])\s{0,4}\\?["']?"""
_QUOTED: Final = r"""\\?["']?\s{0,4}(?::=|=>|[:=,])\s{0,4}\\?["']"""
_BASE64: Final = r"([a-z0-9+/]{8,}={0,2})"
_HEX_NAMES: Final = "auth[_-]?token|api[_-]?key|secret[_-]?key[_-]?base"
_NAMES: Final = "password|passwd|passphrase|pwd|secret(?:[_-]?key)?|api[_-]?key|auth[_-]?key|token"

#: In this order: where two begin at one place, the first decides.
NAMED_VALUES: Final[tuple[NamedValue, ...]] = (
    # A token of a page of results is none, and no secret follows it.
    NamedValue("page", rf"(?:next|page|continuation)[_-]?token(?:{_QUOTED}|[=>])([^\s\"'<]*)", lambda _: False),
    NamedValue("aws_secret_key", rf"secret[_-]?(?:access)?[_-]?(?:key)?{_SEP}([a-z0-9/+]{{40}}[a-z0-9/+=]*)", _is_aws_secret),
    NamedValue("url_password", r"://[^\s/:@\"'<>]{0,64}:([^\s/@\"'<>]{6,})@[a-z0-9\[]", _is_password_of_url),
    NamedValue("named_hex", rf"(?:{_HEX_NAMES})(?:{_QUOTED}|\s{{0,4}}:\s{{1,4}}|=)([0-9a-f]{{32}}[\w-]*)", _is_hex_key),
    NamedValue("connection_password", r"(?:password|pwd)=([^\s;&\"'<>\\,]{8,})", looks_generated),
    NamedValue("named_secret", rf"(?:{_NAMES})(?:{_QUOTED}|\s{{0,4}}:\s{{1,4}}|>|=)([a-z0-9_+/=.!@#^*~-]{{12,}})", is_strong),
    NamedValue("netrc_password", r"login\s+\S+\s+(?:account\s+\S+\s+)?password\s+(\S{6,})", looks_generated),
    NamedValue("pgpass_password", r":(?:5432|5433|6432|\*):[^:\s]{1,64}:[^:\s]{1,64}:(\S{8,})", looks_generated),
    NamedValue("docker_login", rf'"auth"\s{{0,4}}:\s{{0,4}}"{_BASE64}"', _is_docker_login),
    NamedValue("npm_login", rf"_auth\s{{0,4}}=\s{{0,4}}\"?{_BASE64}", _is_docker_login),
    NamedValue("npm_token", r"_authtoken\s{0,4}=\s{0,4}\"?([a-z0-9_-]{20,})", looks_generated),
    NamedValue("basic_login", rf"basic\s{{1,4}}{_BASE64}", _is_basic_login),
    NamedValue("command_login", r"-u(?:ser)?[\s=]{1,2}[\"']?[a-z0-9_.@-]{1,64}:([^\s\"']{8,})", looks_generated),
    NamedValue("command_password", r"sshpass\s{1,4}-p\s{0,4}[\"']?([^\s\"']{8,})", looks_generated),
    NamedValue("azure_account_key", r"(?:account|sharedaccess)key=([a-z0-9+/]{43,}={1,2})", is_strong),
    NamedValue("azure_signature", r"[?&]sig=([a-z0-9%]{43,}%3d)", is_strong),
    NamedValue("wireguard_key", r"privatekey\s{0,4}=\s{0,4}([a-z0-9+/]{43}=)", is_strong),
)
_ANY: Final = BytesPattern(("(?i)" + "|".join(f"(?:{each.pattern})" for each in NAMED_VALUES)).encode())


def find_named_values(data: bytes) -> Iterator[tuple[str, int, int]]:
    """Rule, start and end of each value that its name and its letters make a credential."""
    for number, start, end in _ANY.spans(data):
        rule = NAMED_VALUES[number - 1]
        if end - start <= _LONGEST and rule.judge(data[start:end].decode("latin-1")):
            yield rule.name, start, end
