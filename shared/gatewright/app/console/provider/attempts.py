"""Sign-ins that are under way: bound to the browser that began each, counted once, and no more of them tried than a limit.

State, nonce and PKCE verifier are derived from the browser's cookie with a key of this process. Beginning one costs no
memory, so that a flood of beginnings takes no other's place.
"""

from __future__ import annotations

import base64
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from gatewright.errors import DeniedError, LimitError

#: Seconds that a person has at the provider.
ATTEMPT_SECONDS = 600.0
#: Ways back that led to no session, within so many seconds, after which none is looked at.
_MOST_FAILED, _FAILED_SECONDS = 30, 60.0
_AGAIN = "begin the sign-in again: {why}"


def refusal(why: str) -> DeniedError:
    """Return the error for a failed sign-in."""
    return DeniedError(_AGAIN.format(why=why), code="sign_in_refused")


@dataclass(frozen=True, slots=True)
class SignInAttempt:
    """``cookie`` is what the browser keeps; the others go to the provider (of ``verifier`` its digest, until the way back)."""

    cookie: str
    state: str
    nonce: str
    verifier: str


@dataclass(slots=True)
class SignInAttempts:
    """``clock``: monotonic seconds of this process."""

    clock: Callable[[], float]
    _key: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    _used: dict[str, float] = field(default_factory=dict)
    _failed: list[float] = field(default_factory=list)

    def begin(self) -> SignInAttempt:
        return self._derive_attempt(f"{int(self.clock())}.{secrets.token_urlsafe(32)}")

    def resume(self, cookie: str, state: str) -> SignInAttempt:
        """Return the attempt of a browser that returns with this cookie and state, and mark it as used.

        Raises DeniedError (``sign_in_refused``), LimitError (``service_busy``).
        """
        now = self.clock()
        self._failed = [at for at in self._failed if now - at < _FAILED_SECONDS]
        if len(self._failed) >= _MOST_FAILED:
            raise LimitError("too many sign-ins failed: wait a minute", code="service_busy")
        attempt = self._derive_attempt(cookie)
        if not hmac.compare_digest(attempt.state.encode(), state.encode(errors="replace")):
            raise refusal("it was not begun in this browser, or another one was begun after it")
        # The cookie is one of ours, because the state is made with our key.
        begun = float(cookie.partition(".")[0])
        if not now - begun < ATTEMPT_SECONDS:
            raise refusal("it took too long")
        self._used = {each: at for each, at in self._used.items() if now - at <= ATTEMPT_SECONDS}
        if cookie in self._used:
            raise refusal("it was used already")
        self._used[cookie] = now
        return attempt

    def failed(self) -> None:
        """An attempt led to no session."""
        self._failed.append(self.clock())

    def _derive_attempt(self, cookie: str) -> SignInAttempt:
        return SignInAttempt(cookie, *(self._of(purpose, cookie) for purpose in ("state", "nonce", "verifier")))

    def _of(self, purpose: str, cookie: str) -> str:
        digest = hmac.digest(self._key, f"{purpose}|{cookie}".encode(errors="replace"), "sha256")
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
