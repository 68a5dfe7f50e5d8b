"""Messages of git, ssh and git's HTTP library about refused access, translated to stable codes."""

from __future__ import annotations

from typing import Final

from gatewright.errors import GitError
from gatewright.git.access.credentials import MISSING
from gatewright.git.command import CommandFailedError

DENIED: Final = "repository_access_denied"
UNTRUSTED: Final = "repository_not_trusted"
REDIRECTED: Final = "repository_redirected"
PROXY: Final = "repository_proxy_refused"
TOO_LARGE: Final = "repository_too_large"

#: Messages of git and its helpers in the C locale; the first match applies. Lines of the server begin with "remote:".
_CODES: Final = {
    "died of signal 25": TOO_LARGE,
    "File too large": TOO_LARGE,
    "Out of memory": TOO_LARGE,
    "out of memory": TOO_LARGE,
    "after CONNECT": PROXY,
    "CONNECT tunnel failed": PROXY,
    "Could not resolve proxy": PROXY,
    "Host key verification failed": UNTRUSTED,
    "SSL certificate problem": UNTRUSTED,
    "certificate verification failed": UNTRUSTED,
    "certificate subject name": UNTRUSTED,
    "SSL: no alternative certificate": UNTRUSTED,
    "Authentication failed for": DENIED,
    "could not read Username": MISSING,
    "could not read Password": MISSING,
    "returned error: 401": DENIED,
    "returned error: 403": DENIED,
    "Permission denied": DENIED,
    "returned error: 301": REDIRECTED,
    "returned error: 302": REDIRECTED,
    "returned error: 303": REDIRECTED,
    "returned error: 307": REDIRECTED,
    "returned error: 308": REDIRECTED,
}
#: Output of an index-pack that a size limit ended without a message of its own.
_SILENT_END: Final = "fatal: fetch-pack: invalid index-pack output"
_ADVICE: Final = {
    DENIED: "the server refuses the credential",
    UNTRUSTED: "the server is not the one that is known, or not known at all",
    REDIRECTED: "the server sends to another address, which is not followed: name the repository by that one",
    MISSING: "the server wants a credential, and repositories.json has none for it",
    PROXY: "the proxy lets nothing through",
    TOO_LARGE: "the repository, or what its server sends, is larger than this host may take (GATEWRIGHT_MIRROR_BYTES)",
}


def refusal(address: str, error: CommandFailedError) -> GitError | None:
    """Return the refusal that git's failure at the repository ``address`` stands for; None for any other failure."""
    lines = (line.strip() for line in error.stderr.decode("utf-8", "replace").splitlines())
    own = "\n".join(line for line in lines if line and not line.startswith("remote:"))
    for words, code in _CODES.items():
        if words in own:
            return GitError(f"{address}: {_ADVICE[code]}: {error.output}", code=code)
    if own == _SILENT_END:
        return GitError(f"{address}: {_ADVICE[TOO_LARGE]}", code=TOO_LARGE)
    return None
