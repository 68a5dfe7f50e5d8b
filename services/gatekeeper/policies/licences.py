"""``licences.json``: licences of packages that commands must not use. Without the file none is refused."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from gatewright.policy_files import PolicyFile, PolicyModel

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
