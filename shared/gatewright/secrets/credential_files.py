"""Whether a file with an ambiguous name holds credentials: keys, environments, variables. Pure, linear.

Files that cannot be judged do: large files, binary content, lines that are no assignment.
"""

from __future__ import annotations

from typing import Final

from gatewright.git.paths import fold_component
from gatewright.patterns import BytesPattern, TextPattern
from gatewright.secrets.values import is_placeholder, states_fact

#: Bytes of a file that are judged.
MOST_BYTES: Final = 1 << 20
#: Markers of a private key.
_PRIVATE: Final = BytesPattern(
    rb"-----BEGIN [A-Za-z0-9 ]{0,40}(?:PRIVATE KEY|Static key)|PuTTY-User-Key-File|AGE-SECRET-KEY-1|minisign encrypted secret"
    rb"|encrypted secret key|^-----BEGIN NATS|PrivateKey\s{0,9}="
)
_PUBLIC: Final = BytesPattern(
    rb"\A\s{0,99}(?:ssh-(?:rsa|dss|ed25519) |ecdsa-sha2-|sk-(?:ssh|ecdsa)-|untrusted comment: [^\n]{0,99}public|"
    rb"-----BEGIN [A-Za-z0-9 ]{0,40}(?:PUBLIC KEY|CERTIFICATE|CRL|PARAMETERS|REQUEST))"
)
#: A Keynote presentation, and other archives of that name.
_ARCHIVE: Final = b"PK\x03\x04"
_WORD: Final = TextPattern(r"[A-Za-z0-9+/=_.:@#!$%^&*~-]{8,}")
_LONG_WORD: Final = TextPattern(r"[A-Za-z0-9+/=_-]{16,}")
_ASSIGNMENT: Final = TextPattern(r"\s*(?:export\s+|set\s+)?(?P<name>[A-Za-z_][\w.\[\]-]*)\s*(?:[:?+]?=|:\s)\s*(?P<value>.*)")
#: Placeholders: ``<your token>``, ``${TOKEN}``, ``xxxx``, ``change-me``.
_FILLERS: Final = TextPattern(
    r"(?i)<[^>]*>|\[[^\]]*\]|\$\{?[A-Za-z_][\w:?+-]*\}?|\$\([^)]*\)|\{\{.*\}\}|x+|\*+|\.+|-+|_+|\?+"
    r"|(?:your|my|some|the|an?)[-_ ].*|change[-_ ]?(?:me|it|this).*|(?:replace|insert|enter|put|fill|add|set|paste)[-_ ].*"
    r"|todo|tbd|fixme|none|null|nil|undefined|secret|password|pass|token|key"
)
_NAMED: Final = "passw(?:or)?d|secret|token|api_?key|private_?key|access_?key|credential|connection_string"
_VARIABLES: Final = TextPattern(
    rf"""(?i)[\w-]{{0,60}}(?:{_NAMED})[\w-]{{0,60}}"?\s{{0,99}}[:=]\s{{0,9}}(?:"[^"\n]{{0,999}}"|<<-?[^\n]{{0,99}})"""
)


def holds_credentials(path: bytes, content: bytes) -> bool:
    """Return whether the file at ``path``, whose name alone is ambiguous, holds a credential.

    An environment file does if one value is neither empty nor a placeholder; Terraform variables do if a variable with the
    name of a secret has a value; any other file does if it looks like a private key.
    """
    if len(content) > MOST_BYTES:
        return True
    name = fold_component(path.rpartition(b"/")[2])
    if name.endswith((".tfvars", ".tfvars.json")):
        return _sets_secrets(content)
    if name.startswith(".env"):
        return _sets_values(content)
    return _is_private_key(name, content)


def _is_private_key(name: str, content: bytes) -> bool:
    if _PRIVATE.is_in(content):
        return True
    if not content.strip() or content.startswith(_ARCHIVE) or _PUBLIC.is_in(content):
        return False
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return True
    if "\0" in text:
        return True
    if name.endswith(".pem"):
        return False
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) == 1 and _WORD.fullmatch(lines[0]) is not None:
        return True
    # Lines of digits and letters without a blank, as base64 or hexadecimal digits are.
    return any(_LONG_WORD.fullmatch(line) is not None and any(map(str.isdigit, line)) for line in lines)


def _sets_values(content: bytes) -> bool:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return True
    for line in text.splitlines():
        words = line.strip()
        if not words or words.startswith("#"):
            continue
        found = _ASSIGNMENT.fullmatch(words)
        if found is None or not _is_filler(found.get("value", "")):
            return True
    return False


def _is_filler(value: str) -> bool:
    text = value.partition(" #")[0].strip().rstrip(",;").strip("\"'`").strip()
    return not text or text.startswith("#") or is_placeholder(text) or _FILLERS.fullmatch(text) is not None


def _sets_secrets(content: bytes) -> bool:
    if _PRIVATE.is_in(content):
        return True
    for each in _VARIABLES.findall(content.decode("utf-8", "replace")):
        name, value = each.partition("=" if "=" in each.partition('"')[0] else ":")[::2]
        text = value.strip().strip('"')
        if text.startswith("<<") or (not _is_filler(text) and not states_fact(name.strip(' "\t'), text)):
            return True
    return False
