"""The checks: each a pure function from the changed files to findings. Adding one is adding it to ``CHECKS``."""

from collections.abc import Callable, Iterator, Mapping

from gatewright.contracts.reports import Finding
from gatewright.services.reviewer.checks.contents import conflict_markers, secrets
from gatewright.services.reviewer.checks.evasion import evasion
from gatewright.services.reviewer.checks.files import file_kinds, paths
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
