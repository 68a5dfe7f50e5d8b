"""The packages that a run's commands saw, judged by ``licences.json`` and by the advisories of ``vulnerabilities.json``."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from license_expression import AND, OR, ExpressionError, LicenseWithExceptionSymbol, Licensing

from gatewright.artifacts import stored_uri
from gatewright.contracts import EnvironmentInventory, TestReport, codec
from gatewright.contracts.inventory import InventoryPackage
from gatewright.environment_inventory.advisories import Advisories
from gatewright.errors import ArtifactError, ConfigurationError, MalformedError
from gatewright.services.gatekeeper.gates.context import GateContext
from gatewright.services.gatekeeper.policies.packages import LicencesPolicy, VulnerabilitiesPolicy


async def seen_packages(context: GateContext, tests: TestReport, rule: str, code: str) -> tuple[InventoryPackage, ...] | None:
    """Return the packages of the environment; None when there is nothing to judge.

    Commands that see the system alone have no inventory. Commands that could not run saw nothing; another rule refuses their
    report. An environment whose packages are unknown is refused with ``code`` by ``rule``.

    Raises:
        BusError: the artifact store does not answer.
    """
    seen, report = tests.surroundings, context.report
    if tests.status == "ERROR" or seen is None or (seen.environment is None and seen.inventory is None):
        return None
    if seen.inventory is None:
        report.violate(code, rule, "the test runner listed no packages of the environment")
        return None
    try:
        data = await context.artifacts.get_artifact(stored_uri(seen.inventory.sha256.lower()))
        inventory = codec.decode(data, EnvironmentInventory)
    except (ArtifactError, MalformedError) as error:
        report.violate(code, rule, f"the packages of the environment are unknown: {error.message}")
        return None
    return tuple(package for tree in inventory.trees for package in tree.packages)


LICENCES_RULE = "licences"
LICENCE_REFUSED = "licence_refused"
LICENCES_UNKNOWN = "licences_unknown"
_LICENSING = Licensing()  # type: ignore[no-untyped-call]  # the library has no types


async def judge_licences(context: GateContext, tests: TestReport) -> None:
    """Refuse each package with a refused licence, and an environment whose packages are unknown.

    Raises:
        BusError: the artifact store does not answer.
    """
    policy, report = context.policies.licences, context.report
    if not policy.refuses or (packages := await seen_packages(context, tests, LICENCES_RULE, LICENCES_UNKNOWN)) is None:
        return
    report.checked(LICENCES_RULE, f"refused: {', '.join(policy.refuse) or 'none'}; undeclared: {policy.undeclared}"[:500])
    for package, why in refused_packages(packages, policy):
        report.violate(LICENCE_REFUSED, LICENCES_RULE, f"{package.name} {package.version}: {why}")


def refused_packages(packages: Iterable[InventoryPackage], policy: LicencesPolicy) -> Iterator[tuple[InventoryPackage, str]]:
    """Yield each package that the policy refuses, and why."""
    refused = frozenset(each.casefold() for each in policy.refuse)
    exempt = frozenset(each.casefold() for each in policy.except_packages)
    for package in packages:
        if package.name.casefold() in exempt:
            continue
        if package.licence is None:
            if policy.undeclared == "refused":
                yield package, "it declares no licence"
        elif is_refused(package.licence, refused):
            yield package, f"its licence is {package.licence}"


def is_refused(licence: str, refused: frozenset[str]) -> bool:
    """Return whether an SPDX expression, or another declared text, is refused. ``refused``: names in lower case."""
    if licence.casefold() in refused:
        return True
    try:
        parsed = _LICENSING.parse(licence)  # type: ignore[no-untyped-call]
    except ExpressionError:
        return False
    return _is_refused(parsed, refused)


def _is_refused(part: Any, refused: frozenset[str]) -> bool:
    """Judge a part of an expression. An exception (WITH) does not lift the refusal of its licence."""
    if isinstance(part, OR):
        return all(_is_refused(each, refused) for each in part.args)
    if isinstance(part, AND):
        return any(_is_refused(each, refused) for each in part.args)
    symbol = part.license_symbol if isinstance(part, LicenseWithExceptionSymbol) else part
    return symbol is not None and symbol.key.casefold() in refused


VULNERABILITIES_RULE: Final = "vulnerabilities"
FOUND: Final = "vulnerability_found"
VULNERABILITIES_UNKNOWN: Final = "vulnerabilities_unknown"


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
    packages = await seen_packages(context, tests, VULNERABILITIES_RULE, VULNERABILITIES_UNKNOWN)
    if packages is None:
        return
    try:
        advisories, digest = await asyncio.to_thread(known.current, policy.advisories)
    except ConfigurationError as error:
        report.violate(VULNERABILITIES_UNKNOWN, VULNERABILITIES_RULE, error.message)
        return
    compared = f"{len(packages)} packages, {advisories.count} advisories (sha256 {digest[:16]})"
    report.checked(VULNERABILITIES_RULE, f"{compared}, from {policy.from_severity}")
    for words in vulnerable_packages(packages, advisories, policy):
        report.violate(FOUND, VULNERABILITIES_RULE, words)


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
