"""``vulnerabilities.json``: advisories that packages of a run are compared with. Without the file no package is."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from gatewright.environment_inventory.advisories import LEVELS, Advisory, Severity
from gatewright.policy_files import AbsolutePath, PolicyFile, PolicyModel


class VulnerabilitiesPolicy(PolicyModel):
    """``advisories``: a file in the Open Source Vulnerability format, which is read again when it changes.

    ``from_severity``: lowest severity that is refused; an advisory without one is always refused. ``except_ids``: advisories,
    or their aliases, that are accepted.
    """

    version: Literal["1"]
    advisories: AbsolutePath
    from_severity: Severity = "LOW"
    except_ids: tuple[Annotated[str, Field(min_length=1, max_length=100)], ...] = Field(default=(), max_length=1000)

    def refuses(self, advisory: Advisory) -> bool:
        """Return whether a package that the advisory affects is refused."""
        if set(advisory.ids) & set(self.except_ids):
            return False
        return advisory.severity is None or LEVELS.index(advisory.severity) >= LEVELS.index(self.from_severity)


VULNERABILITIES_FILE: Final = PolicyFile("vulnerabilities.json", VulnerabilitiesPolicy)
