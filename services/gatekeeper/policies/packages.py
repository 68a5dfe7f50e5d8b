"""Packages of a run: ``licences.json``, and the advisories of ``vulnerabilities.json``. Without the files none is refused."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from gatewright.environment_inventory.advisories import LEVELS, Advisory, Severity
from gatewright.policy_files import AbsolutePath, PolicyFile, PolicyModel

Name = Annotated[str, Field(min_length=1, max_length=200)]


class LicencesPolicy(PolicyModel):
    """Requirements on the licences in the inventory of a run's environment.

    ``refuse``: SPDX ids, or declared texts, in any case. An expression with OR is refused if each choice is. ``undeclared``:
    packages without a licence are recorded, or refused. ``except_packages``: names of packages that are not judged.
    """

    version: Literal["1"]
    refuse: tuple[Name, ...] = Field(default=(), max_length=1000)
    undeclared: Literal["recorded", "refused"] = "recorded"
    except_packages: tuple[Name, ...] = Field(default=(), max_length=1000)

    @property
    def refuses(self) -> bool:
        """Return whether any package could be refused."""
        return bool(self.refuse) or self.undeclared == "refused"


LICENCES_FILE: Final = PolicyFile("licences.json", LicencesPolicy, default=lambda: LicencesPolicy(version="1"))


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
