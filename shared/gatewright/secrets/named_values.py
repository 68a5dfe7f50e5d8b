"""Credentials without a form of their own: the words before a value name it, and the value must look generated.

``password=``, a line of a ``.netrc``, a URL with a password. One pattern searches for all of them at once.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from gatewright.patterns import BytesPattern
from gatewright.secrets.values import (
    is_chosen_password,
    is_placeholder,
    is_shown,
    is_strong,
    looks_generated,
    password_in_base64,
)

_SHORTEST_PASSWORD: Final = 6
_AWS_SECRET: Final = 40
_LONGEST: Final = 512
_HEX_LENGTHS: Final = (32, 64, 96, 128)
_FEWEST_LETTERS_OF_HASH: Final = 12


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


def _is_given(value: str) -> bool:
    """Return whether a value in a password position is a real one: no reference, no word of documentation."""
    return len(value) >= _SHORTEST_PASSWORD and (looks_generated(value) or is_chosen_password(value))


def _is_hash(value: str) -> bool:
    """A whole hash, of which one part is not the same letter again and again."""
    return not is_placeholder(value) and len(set(value.rpartition("$")[2])) >= _FEWEST_LETTERS_OF_HASH


def _is_hex_key(value: str) -> bool:
    return len(value) in _HEX_LENGTHS and looks_generated(value)


#: Between a name and its value: ``=``, ``: ``, ``" => "``, ``">`` of XML.
_SEP: Final = r"""\\?["']?\s{0,4}(?::=|=>|[:=>,])\s{0,4}\\?["']?"""
_QUOTED: Final = r"""\\?["']?\s{0,4}(?::=|=>|[:=,])\s{0,4}\\?["']"""
_BASE64: Final = r"([a-z0-9+/]{8,}={0,2})"
_HEX_NAMES: Final = "auth[_-]?token|api[_-]?key|secret[_-]?key[_-]?base"
#: Variables from which programs take a password.
_VARIABLES: Final = (
    "pgpassword|mysql_pwd|sshpass|rediscli_auth|restic_password|borg_passphrase|mongo_password|rsync_password|svn_password"
    "|smbpassword|cifs_password|ansible_become_pass(?:word)?|ansible_(?:ssh_)?pass(?:word)?|sudo_pass(?:word)?|gpg_passphrase"
)
#: Programs that accept a password joined to ``-p``, and options that have only one.
_MYSQL: Final = "(?:mysql|mariadb)(?:-?(?:dump|admin|import|check|show|slap|binlog))?"
_OPTIONS: Final = (
    "--(?:http-|ftp-|proxy-|db-|admin-|root-|bind-)?password|--passphrase|--passwd|-(?:store|key|src|dest)(?:store)?pass"
    "|-passin pass:|-passout pass:|--requirepass|--pass"
)
#: The owner of a password, before its name.
_OWNERS: Final = (
    "db|database|mysql|mariadb|postgres|postgresql|pg|redis|mongo|mongodb|rabbitmq|amqp|smtp|mail|email|imap|ldap|bind|ssh|ftp|sftp"
    "|root|admin|sudo|become|master|keystore|truststore|datasource|app|prod|production|staging|service|jenkins|grafana|proxy|vpn|wifi"
)
#: bcrypt, SHA-crypt, yescrypt, argon2, scrypt, MD5-crypt, PBKDF2 of Django and passlib, LDAP.
_HASHES: Final = (
    r"\$2[abxy]\$[0-9]{2}\$[./a-z0-9]{53}|\$[56]\$(?:rounds=[0-9]{1,9}\$)?[./a-z0-9]{1,16}\$[./a-z0-9]{43,86}"
    r"|\$(?:y|gy|7)\$[./a-z0-9]{1,12}\$[./a-z0-9]{1,86}\$[./a-z0-9]{43}|\$argon2(?:id|i|d)\$[a-z0-9=,$]{5,60}\$[+/a-z0-9]{11,86}\$[+/a-z0-9]{22,128}"
    r"|\$(?:1|apr1)\$[./a-z0-9]{1,8}\$[./a-z0-9]{22}|(?:\$pbkdf2-sha(?:256|512)\$|pbkdf2_sha(?:1|256)\$)[0-9]{1,9}\$[./+a-z0-9]{8,64}\$[./+a-z0-9=]{27,90}"
    r"|\{ss?ha(?:256|512)?\}[+/a-z0-9]{28,120}={0,2}|scrypt:[0-9:]{5,20}\$[a-z0-9]{8,32}\$[0-9a-f]{64,128}"
)
_NAMES: Final = "password|passwd|passphrase|pwd|secret(?:[_-]?key)?|api[_-]?key|auth[_-]?key|token"

#: In order of priority for matches at the same place.
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
    NamedValue("command_login", r"-u(?:ser)?[\s=]{1,2}[\"']?[a-z0-9_.@-]{1,64}:([^\s\"']{6,})", _is_given),
    NamedValue("command_password", r"sshpass\s{1,4}-p\s{0,4}[\"']?([^\s\"']{6,})", _is_given),
    NamedValue("azure_account_key", r"(?:account|sharedaccess)key=([a-z0-9+/]{43,}={1,2})", is_strong),
    NamedValue("azure_signature", r"[?&]sig=([a-z0-9%]{43,}%3d)", is_strong),
    NamedValue("wireguard_key", r"privatekey\s{0,4}=\s{0,4}([a-z0-9+/]{43}=)", is_strong),
)
#: A quick check: the rules apply only if one of these words is present.
_GLANCE: Final = BytesPattern(
    rb"(?i)passw|pwd|passphrase|mysql|mariadb|[ -]-?(?:pass|requirepass|keypass|storepass)|identified|rediscli_auth|sshpass"
    rb"|\$(?:2[abxy]|argon2|[1567y]|gy|apr1|pbkdf2)|\{s?sha|pbkdf2_sha|scrypt:"
)
RARER_VALUES: Final[tuple[NamedValue, ...]] = (
    NamedValue("mysql_password", rf"\b{_MYSQL}\s[^\n|;&]{{0,200}}?\s?-p[\"']?([^\s\"'=]{{6,}})", _is_given),
    NamedValue("option_password", rf"\s(?:{_OPTIONS})(?:[=\s]\s{{0,2}}[\"']?|)([^\s\"'=,)\]]{{6,}})", _is_given),
    NamedValue("password_variable", rf"\b(?:{_VARIABLES})\s{{0,4}}[=:]\s{{0,4}}[\"']?([^\s\"']{{6,}})", _is_given),
    NamedValue(
        "sql_password", r"(?:identified\s{1,9}by|with\s{1,9}(?:encrypted\s{1,9})?password)\s{1,9}'([^'\n]{6,})'", _is_given
    ),
    NamedValue(
        "password_hash",
        rf"(?:(?:passw(?:or)?d|passwd|pwd|hash|secret|auth)[a-z_]{{0,20}}{_SEP}|[\n\"'][a-z0-9_.@-]{{1,64}}:)({_HASHES})",
        _is_hash,
    ),
    NamedValue(
        "chosen_password",
        rf"\b(?:{_OWNERS})[_.-]?(?:[a-z]{{1,20}}[_.-])?(?:password|passwd|pwd|passphrase){_SEP}([^\s\"'<>&,;]{{8,}})",
        _is_given,
    ),
)


def _together(values: tuple[NamedValue, ...]) -> BytesPattern:
    return BytesPattern(("(?i)" + "|".join(f"(?:{each.pattern})" for each in values)).encode())


_ANY: Final = _together(NAMED_VALUES)
_ANY_RARER: Final = _together(RARER_VALUES)


def find_named_values(data: bytes) -> Iterator[tuple[str, int, int]]:
    """Rule, start and end of each value that its name and its letters make a credential."""
    yield from _find_values(NAMED_VALUES, _ANY, data)
    if _GLANCE.is_in(data):
        yield from _find_values(RARER_VALUES, _ANY_RARER, data)


def _find_values(values: tuple[NamedValue, ...], pattern: BytesPattern, data: bytes) -> Iterator[tuple[str, int, int]]:
    for number, start, end in pattern.spans(data):
        rule = values[number - 1]
        if end - start <= _LONGEST and rule.judge(data[start:end].decode("latin-1")):
            yield rule.name, start, end
