"""Known vulnerabilities of the packages that a run's commands saw, by the operator's advisories."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gatewright.contracts import TestReport
from gatewright.contracts.inventory import InventoryPackage
from gatewright.environment_inventory.advisories import Advisories
from gatewright.errors import ConfigurationError
from gatewright.services.gatekeeper.gates.context import GateContext
from gatewright.services.gatekeeper.gates.reports.inventories import seen_packages
from gatewright.services.gatekeeper.policies.vulnerabilities import VulnerabilitiesPolicy

RULE: Final = "vulnerabilities"
FOUND: Final = "vulnerability_found"
UNKNOWN: Final = "vulnerabilities_unknown"


@dataclass(slots=True)
class KnownAdvisories:
    """The advisories of the policy's file, read again when the file changes."""

    _state: tuple[Path, int, int] | None = None
    _read: tuple[Advisories, str] | None = field(default=None, repr=False)

    def current(self, path: Path) -> tuple[Advisories, str]:
        """Return the advisories and the digest of the file. Raises ConfigurationError."""
        try:
            found = path.stat()
            state = (path, found.st_mtime_ns, found.st_size)
            if self._read is None or state != self._state:
                with path.open("rb") as file:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
                self._state, self._read = state, (Advisories.read(path), digest)
        except OSError as error:
            raise ConfigurationError(f"{path}: {error.strerror or error}") from error
        return self._read


async def judge_vulnerabilities(context: GateContext, tests: TestReport, known: KnownAdvisories) -> None:
    """Refuse each package with a vulnerability that the policy refuses, and packages or advisories that are unknown.

    Raises:
        BusError: the artifact store does not answer.
    """
    policy, report = context.policies.vulnerabilities, context.report
    if policy is None:
        return
    packages = await seen_packages(context, tests, RULE, UNKNOWN)
    if packages is None:
        return
    try:
        advisories, digest = await asyncio.to_thread(known.current, policy.advisories)
    except ConfigurationError as error:
        report.violate(UNKNOWN, RULE, error.message)
        return
    compared = f"{len(packages)} packages, {advisories.count} advisories (sha256 {digest[:16]})"
    report.checked(RULE, f"{compared}, from {policy.from_severity}")
    for words in vulnerable_packages(packages, advisories, policy):
        report.violate(FOUND, RULE, words)


def vulnerable_packages(
    packages: Iterable[InventoryPackage], advisories: Advisories, policy: VulnerabilitiesPolicy
) -> Iterator[str]:
    """Yield each refused vulnerability of a package as text, once."""
    for package in packages:
        found = {advisory.ids[0]: advisory for advisory in advisories.about(package) if policy.refuses(advisory)}
        for name, advisory in found.items():
            names = f"{name} ({', '.join(advisory.ids[1:4])})" if len(advisory.ids) > 1 else name
            fixed = f"fixed in {', '.join(advisory.fixed[:4])}" if advisory.fixed else "no version fixes it"
            yield f"{package.name} {package.version}: {names}, {advisory.severity or 'severity not stated'}: {fixed}"
