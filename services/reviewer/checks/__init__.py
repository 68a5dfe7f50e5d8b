"""The checks: each a pure function from the changed files to findings. Adding one is adding it to ``CHECKS``."""

from collections.abc import Callable, Iterator, Mapping

from gatewright.contracts.reports import Finding
from gatewright.services.reviewer.checks.conflict_markers import conflict_markers
from gatewright.services.reviewer.checks.evasion import evasion
from gatewright.services.reviewer.checks.file_kinds import file_kinds
from gatewright.services.reviewer.checks.paths import paths
from gatewright.services.reviewer.checks.secrets import secrets
from gatewright.services.reviewer.checks.weakened_tests import weakened_tests
from gatewright.services.reviewer.subject import Subject

Check = Callable[[Subject], Iterator[Finding]]

CHECKS: Mapping[str, Check] = {
    "paths": paths,
    "file_kinds": file_kinds,
    "conflict_markers": conflict_markers,
    "secrets": secrets,
    "weakened_tests": weakened_tests,
    "evasion": evasion,
}

__all__ = ["CHECKS", "Check"]
