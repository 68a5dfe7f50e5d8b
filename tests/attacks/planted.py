"""Credentials that are none, put together where they are used: no file of this project looks as if it held one."""

from __future__ import annotations

import base64
import random
import string

_LETTERS = string.ascii_letters + string.digits


def _random(length: int, letters: str = _LETTERS, seed: int = 7) -> str:
    source = random.Random(seed)  # noqa: S311 - the same on every run, and worth nothing
    return "".join(source.choice(letters) for _ in range(length))


GITHUB = "gh" + "p_" + _random(36)
AWS = "AK" + "IA" + _random(16, string.ascii_uppercase + "234567")
SLACK = "xo" + "xb-" + _random(12, string.digits) + "-" + _random(12, string.digits) + "-" + _random(24)
STRIPE = "sk_" + "live_" + _random(24)
SENDGRID = "SG" + "." + _random(22) + "." + _random(43)
PRIVATE_KEY = (
    "-----BEGIN " + "RSA PRIVATE KEY-----\n"
    + "\n".join(base64.b64encode(_random(48, seed=number).encode()).decode() for number in range(8))
    + "\n-----END " + "RSA PRIVATE KEY-----\n"
)  # fmt: skip

#: One of each kind, by name.
ALL = {
    "github": GITHUB,
    "aws": AWS,
    "slack": SLACK,
    "stripe": STRIPE,
    "sendgrid": SENDGRID,
    "private_key": PRIVATE_KEY,
}
