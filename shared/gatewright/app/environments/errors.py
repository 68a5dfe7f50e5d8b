"""Why an environment could not be made."""

from __future__ import annotations

from gatewright.errors import UnavailableError


class NotPreparedError(UnavailableError):
    """Correct what the message names, or make an environment by hand and give it with --env DIR."""

    code = "environment_not_prepared"
