"""What becomes of a delivery whose task went wrong: the class of the error alone decides. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gatewright.bus.port import NO_ANSWER, NO_RESPONDERS
from gatewright.bus.topology import handled_deliveries
from gatewright.bus.versions import OTHER_VERSION
from gatewright.errors import BusError, GatewrightError, UnavailableError
from gatewright.host_errors import is_waited_for
from gatewright.reasons import Family
from gatewright.telemetry.redaction import redact_text

FIRST_DELAY = 0.5
LONGEST_DELAY = 30.0
#: Seconds between two attempts of work that waits for disk space.
LONGEST_WAIT = 5.0
_BUS_AWAY = frozenset({BusError.code, NO_ANSWER, NO_RESPONDERS})
#: Seconds until a task of another version is offered again for the first time; twice as many from time to time.
OTHER_VERSION_DELAY = 5.0
#: Of an error's words, what goes into an answer or a header.
MAX_WORDS = 2_000


@dataclass(frozen=True, slots=True)
class Disposition:
    """``refuse``: answer with an Error, dead-letter, never retry.

    ``retry``: again after ``delay`` seconds. ``crash``: like retry, and the process ends. ``code``, its ``family`` and
    ``message`` give the reason, without secrets.
    """

    action: Literal["refuse", "retry", "crash"]
    code: str
    message: str
    delay: float = 0.0
    family: Family | None = None


def backoff(attempts: int) -> float:
    """Seconds until the next try after ``attempts`` deliveries: 0.5, 1, 2 ... 30."""
    return min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(attempts - 1, 30))


def waits(error: BaseException) -> bool:
    """Return whether the work waits in place, without counting an attempt: no disk space, or no bus, or a bus that is full."""
    return is_waited_for(error) or (isinstance(error, BusError) and error.reason in _BUS_AWAY)


def waiting_pause(rounds: int) -> float:
    """Seconds until work that waits is tried again, after so many rounds."""
    return min(LONGEST_WAIT, backoff(rounds))


def disposition(error: BaseException, attempts: int, max_deliver: int) -> Disposition:
    """Decide what to do after ``error``.

    1. A final error (malformed, denied, anything but unavailable) is refused.
    2. On the last delivery that is worked on, every error is final.
    3. UnavailableError is retried later.
    4. Anything else is unexpected: the process ends, the supervisor starts a new one, and the task is redelivered.

    Args:
        error: the error.
        attempts: number of this delivery, from 1.
        max_deliver: maximum number of deliveries; -1 for no limit.
    """
    expected = isinstance(error, GatewrightError)
    code = error.reason if isinstance(error, GatewrightError) else "internal_error"
    family = error.family if isinstance(error, GatewrightError) else None
    # The words of an unexpected error may show anything; they stand in the log, with the traceback.
    message = words(str(error)) if expected else f"the role failed with {type(error).__name__}; see its log"
    if expected and not isinstance(error, UnavailableError):  # 1
        return Disposition("refuse", code, message, family=family)
    if attempts >= handled_deliveries(max_deliver):  # 2
        return Disposition("refuse", code, f"{message} (given up after {attempts} attempts)", family=family)
    action: Literal["retry", "crash"] = "retry" if expected else "crash"  # 3, 4
    # A process of the other version may have to be started first.
    delay = OTHER_VERSION_DELAY * 2.0 ** (attempts - 1) if code == OTHER_VERSION else backoff(attempts)
    return Disposition(action, code, message, delay)


def words(text: str) -> str:
    """``text`` as it may leave the process: secrets taken out, bounded."""
    text = redact_text(text)
    return text if len(text) <= MAX_WORDS else text[:MAX_WORDS] + "..."
