"""Pure checks of names from outside: object ids, refs and repository addresses.

Everything that reaches a git command line from a document passes here first. These checks look nothing up: a well-formed
name need not exist.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote_to_bytes, urlsplit

from gatewright.contracts.queue_receipt import Blob
from gatewright.errors import MalformedError
from gatewright.git.modes import DIRECTORY

#: The branches of runs without a target of their own.
RUN_BRANCHES = "refs/heads/gatewright/"
_OBJECT_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")  # noqa: TID251 - linear: anchored, and no repetition can give to the next
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")  # noqa: TID251 - linear: single characters
#: Characters that ``git check-ref-format`` forbids. This also refuses revision expressions (``main~1``, ``main^{tree}``).
_REF_FORBIDDEN = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//")  # noqa: TID251 - linear: of a fixed length
#: Writing these in a target would change how its owner's git works, not what it holds.
_NEVER_PUSHED = ("refs/replace/", "refs/stash", "refs/bisect/", "refs/worktree/", "refs/rewritten/", "refs/original/")
_HELPER = re.compile(r"[A-Za-z0-9+.-]*::")  # noqa: TID251 - linear: anchored, and no repetition can give to the next
_SCP_LIKE = re.compile(r"(?:(?P<user>[^@:/]+)@)?(?P<host>[^@:/]+):(?P<path>[^/:].*|/.*)")  # noqa: TID251 - linear: anchored, and no repetition can give to the next
_HOST = re.compile(r"[A-Za-z0-9:](?:[A-Za-z0-9.:_-]*[A-Za-z0-9.])?")  # noqa: TID251 - linear: anchored, and no repetition can give to the next
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")  # noqa: TID251 - linear: anchored, and no repetition can give to the next


@dataclass(frozen=True)
class Source:
    """A repository's location: the address as git accepts it, and the one protocol that may be used to reach it."""

    address: str
    protocol: str

    @property
    def local(self) -> bool:
        return self.protocol == "file"


def is_object_id(text: str) -> bool:
    """True for a full lower-case object id (40 digits for SHA-1, 64 for SHA-256)."""
    return _OBJECT_ID.fullmatch(text) is not None


def check_object_id(text: str) -> str:
    """``text`` when it is a full object id. MalformedError (``bad_object_id``) otherwise."""
    if not is_object_id(text):
        raise MalformedError(f"not a full object id: {text[:80]!a}", code="bad_object_id")
    return text


def object_id(kind: str, data: bytes, digits: int) -> str:
    """Return the id of a ``blob``, ``tree`` or ``commit`` with this content: 40 hex digits (SHA-1) or 64 (SHA-256)."""
    raw = b"%s %d\0%s" % (kind.encode(), len(data), data)
    return hashlib.sha256(raw).hexdigest() if digits == 64 else hashlib.sha1(raw, usedforsecurity=False).hexdigest()


def write_tree(entries: Mapping[bytes, Blob]) -> bytes:
    """Return a tree object; git sorts a folder as if its name ended with a slash."""
    ordered = sorted(entries.items(), key=lambda item: item[0] + b"/" * (item[1].mode == DIRECTORY))
    return b"".join(b"%s %s\0%s" % (each.mode.encode(), name, bytes.fromhex(each.object_id)) for name, each in ordered)


def check_ref(text: str) -> str:
    """Return ``text`` if it is an object id, ``HEAD``, a branch or tag name, or a full ref name; object ids become lower-case.

    Raises MalformedError (``bad_ref``) for options, revision expressions and everything that ``git check-ref-format``
    refuses.
    """
    if is_object_id(text.lower()):
        return text.lower()
    if fault := _ref_fault(text):
        raise MalformedError(f"not a ref name ({fault}): {text[:80]!a}", code="bad_ref")
    return text


def is_ref_name(text: str) -> bool:
    """Return whether git accepts ``text`` as the name of a ref, full or not."""
    return _ref_fault(text) is None


def check_full_ref(text: str) -> str:
    """``text`` when it is a full ref name below ``refs/``. MalformedError (``bad_ref``) otherwise."""
    if not text.startswith("refs/") or _ref_fault(text):
        raise MalformedError(f"not a full ref name: {text[:80]!a}", code="bad_ref")
    return text


def check_landing_ref(text: str) -> str:
    """A full ref name that a change may be landed on. MalformedError (``bad_ref``) otherwise."""
    if check_full_ref(text).startswith(_NEVER_PUSHED):
        raise MalformedError(f"nothing may be landed on {text[:80]!a}", code="bad_ref")
    return text


def full_names(ref: str) -> tuple[str, ...]:
    """The full names that a checked ``ref`` may mean: itself for ``HEAD`` and ``refs/...``, else its branch and its tag."""
    if ref == "HEAD" or ref.startswith("refs/"):
        return (ref,)
    return (f"refs/heads/{ref}", f"refs/tags/{ref}")


def parse_url(url: str, protocols: tuple[str, ...]) -> Source:
    """The source that ``url`` names: an absolute path, ``file:///...``, ``https://``, ``ssh://`` or ``user@host:path``.

    MalformedError (``bad_url``) for relative paths, options, remote helpers (``ext::``), passwords in the address and every
    protocol that is not in ``protocols``.
    """
    if not url or url.startswith("-") or _CONTROL.search(url) or _HELPER.match(url):
        raise _bad_url(url, "an option, a control character or a remote helper")
    if url.startswith("/"):
        source = Source(url.rstrip("/") or "/", "file")
    elif "://" in url:
        source = _from_split(url)
    else:
        source = _from_scp(url)
    if source.protocol not in protocols:
        raise _bad_url(url, f"protocol {source.protocol} is not allowed here, only {', '.join(protocols) or 'none'}")
    return source


def holds_credentials(url: str) -> bool:
    """Return whether an address, well-formed or not, has text at the position of a password or token."""
    if url.startswith("/"):
        return False
    scheme, has_scheme, rest = url.partition("://")
    if not has_scheme:
        return ":" in url.rpartition("@")[0]
    authority = rest.partition("/")[0].partition("?")[0].partition("#")[0]
    user, has_user, host = authority.rpartition("@")
    # ``user:password/with/slash@host``: what would be the port is none.
    odd_port = "@" in rest and not host.startswith("[") and not (host.partition(":")[2] or "0").isdigit()
    return ":" in user or (bool(has_user) and scheme.lower() != "ssh") or odd_port


def _ref_fault(text: str) -> str | None:
    """Return the first violation of git's check-ref-format, of the ban on options, or of the limit of 1,024 bytes."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return "not text"
    if not 0 < size <= 1024 or text == "@" or text.startswith("-"):
        return "empty, too long, '@' or an option"
    if _REF_FORBIDDEN.search(text):
        return "a forbidden character or a revision expression"
    for part in text.split("/"):
        if not part or part.startswith(".") or part.endswith((".", ".lock")):
            return "a part that is empty, begins or ends with a dot, or ends with .lock"
    return None


def _from_split(url: str) -> Source:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        # Not in the library's message, which quotes what it took for the port.
        raise _bad_url(url, "host or port") from error
    if parts.password is not None or (parts.username is not None and parts.scheme != "ssh"):
        # The address is written into the ledger and into every bundle; a secret must not be.
        raise _bad_url(url, "credentials do not belong in an address: repositories.json refers to them")
    if parts.query or parts.fragment:
        raise _bad_url(url, "a query or a fragment")
    if parts.scheme == "file":
        return _from_file(url, parts)
    if not _HOST.fullmatch(parts.hostname or "") or (parts.username and not _USER.fullmatch(parts.username)) or port == 0:
        raise _bad_url(url, "host, user or port")
    if parts.path.strip("/") == "" or parts.path.startswith("/-"):
        raise _bad_url(url, "path")
    return Source(url.rstrip("/"), parts.scheme)


def _from_file(url: str, parts: SplitResult) -> Source:
    path = unquote_to_bytes(parts.path).decode("utf-8", "surrogateescape")
    if parts.netloc or not path.startswith("/") or _CONTROL.search(path):
        raise _bad_url(url, "file addresses are file:///absolute/path")
    return Source(path.rstrip("/") or "/", "file")


def _from_scp(url: str) -> Source:
    match = _SCP_LIKE.fullmatch(url)
    if match is None or (match["user"] is None and "@" in match["path"]):
        # The second form is ``user:password@host:path``, whose host would be the user.
        raise _bad_url(url, "not an absolute path and not an address")
    if not _HOST.fullmatch(match["host"]) or (match["user"] and not _USER.fullmatch(match["user"])):
        raise _bad_url(url, "host or user")
    if match["path"].startswith("-"):
        raise _bad_url(url, "path")
    return Source(url.rstrip("/"), "ssh")


def _bad_url(url: str, fault: str) -> MalformedError:
    # Text before an @ may be a password, wherever it was meant to be.
    shown = "(not shown)" if "@" in url else ascii(url[:200])
    return MalformedError(f"not a repository address ({fault}): {shown}", code="bad_url")


def folder_names(ref: str) -> tuple[str, ...]:
    """Return names that cannot be refs besides ``ref``: ``refs``, ``refs/heads`` and ``refs/heads/a`` for
    ``refs/heads/a/b``."""
    return tuple(ref[:at] for at, sign in enumerate(ref) if sign == "/")
