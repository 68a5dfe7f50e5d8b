"""The licences of the packages that a run's commands saw, judged by ``licences.json``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from license_expression import AND, OR, ExpressionError, LicenseWithExceptionSymbol, Licensing

from gatewright.contracts import TestReport
from gatewright.contracts.inventory import InventoryPackage
from gatewright.services.gatekeeper.gates.context import GateContext
from gatewright.services.gatekeeper.gates.reports.inventories import seen_packages
from gatewright.services.gatekeeper.policies.licences import LicencesPolicy

_RULE = "licences"
CODE = "licence_refused"
UNKNOWN = "licences_unknown"
_LICENSING = Licensing()  # type: ignore[no-untyped-call]  # the library has no types


async def judge_licences(context: GateContext, tests: TestReport) -> None:
    """Refuse each package with a refused licence, and an environment whose packages are unknown.

    Raises:
        BusError: the artifact store does not answer.
    """
    policy, report = context.policies.licences, context.report
    if not policy.refuses or (packages := await seen_packages(context, tests, _RULE, UNKNOWN)) is None:
        return
    report.checked(_RULE, f"refused: {', '.join(policy.refuse) or 'none'}; undeclared: {policy.undeclared}"[:500])
    for package, why in refused_packages(packages, policy):
        report.violate(CODE, _RULE, f"{package.name} {package.version}: {why}")


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
