"""The table of reason codes holds what the sources give, no more and no less; the page of the documentation is made from it."""

from __future__ import annotations

import importlib.util
import re
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from gatewright.errors import GatewrightError
from gatewright.host_errors import _CODES as HOST_CODES
from gatewright.reasons import EXIT_CODES, FAMILIES, REASONS, Reason, advice_for, family_of, offers_for, passes
from gatewright.reasons.bad_input import BAD_INPUT
from gatewright.reasons.failed import FAILED
from gatewright.reasons.infrastructure import INFRASTRUCTURE
from gatewright.reasons.reference import reference
from gatewright.reasons.refused import REFUSED
from tests.reason_codes import ROOT, composed_codes, given_codes

DOCS = ROOT / "docs"
#: Of one advice.
MOST_WORDS = 20


def test_every_code_that_the_sources_give_is_in_the_table() -> None:
    unknown = {code: places for code, places in given_codes().items() if code not in REASONS}
    assert unknown == {}


def test_no_code_is_in_the_table_that_the_sources_do_not_give() -> None:
    assert REASONS.keys() - given_codes().keys() == set()


def test_the_source_reader_sees_every_way_of_giving_a_code() -> None:
    keyword, positional, of_a_class, constant, table, either, yielded, default, returned = (
        "home_tracked",
        "empty_diff",
        "patch_does_not_apply",
        "blast_radius_exceeded",
        "tests_wrong_tree",
        "artifact_ambiguous",
        "mode_change_refused",
        "task_failed",
        "bus_storage_full",
    )
    ways = {keyword, positional, of_a_class, constant, table, either, yielded, default, returned}
    assert ways <= given_codes().keys()


def test_no_code_is_put_together_of_pieces_but_those_that_jetstream_numbers() -> None:
    assert composed_codes() == {"f'jetstream_{number}'"}


def test_every_operating_system_error_is_in_the_table() -> None:
    assert {REASONS[code].family for code in HOST_CODES.values()} == {"infrastructure"}


def test_a_code_stands_in_the_table_once() -> None:
    codes = [reason.code for reason in (*BAD_INPUT, *REFUSED, *FAILED, *INFRASTRUCTURE)]
    assert sorted(codes) == sorted(set(codes))


def test_every_class_of_errors_has_a_code_of_the_table() -> None:
    classes = [GatewrightError]
    for kind in classes:
        classes += kind.__subclasses__()
    assert {kind.code for kind in classes if kind.__module__.startswith("gatewright")} <= REASONS.keys()


@pytest.mark.parametrize("reason", REASONS.values(), ids=lambda reason: str(reason.code))
def test_every_reason_has_advice_and_a_page_that_is_there(reason: Reason) -> None:
    assert reason.family in FAMILIES
    assert reason.advice
    assert not reason.advice.endswith(".")
    page, _, anchor = reason.page.partition("#")
    assert not anchor or anchor in anchors(DOCS / page)


@pytest.mark.parametrize("reason", REASONS.values(), ids=lambda reason: str(reason.code))
def test_every_advice_is_one_short_sentence_in_plain_words(reason: Reason) -> None:
    prose = prose_rules()
    broken = [fault.text for fault in prose.faults(reason.code, reason.advice) if "passive" not in fault.text]
    assert broken == []
    assert sum(sentence.words for sentence in prose.sentences(reason.advice)) <= MOST_WORDS


@cache
def prose_rules() -> ModuleType:
    """``.ci/prose.py``, which checks the pages."""
    spec = importlib.util.spec_from_file_location("prose", ROOT / ".ci" / "prose.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as forges make them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_documentation_page_matches_the_table() -> None:
    assert (DOCS / "reasons.md").read_text("utf-8") == reference(), "python -m gatewright.reasons > docs/reasons.md"


#: All that a retry line may add, and after which refusals: a change of this list is a decision about what people paste.
OFFERED = {
    "path_out_of_scope": {"--allow"},
    "path_protected": {"--allow-tests", "--allow-dependencies", "--allow-kind"},
    "binary_refused": {"--allow-kind"},
    "executable_refused": {"--allow-kind"},
    "mode_change_refused": {"--allow-kind"},
    "submodule_refused": {"--allow-kind"},
    "symlink_refused": {"--allow-kind"},
    "file_too_large": {"--allow-kind"},
    "diff_too_large": {"--allow-kind"},
    "target_checked_out": {"--land"},
    "merge_approval_void": {"--again"},
    "merge_conflict": {"--again"},
    "merge_scope": {"--again"},
    "merge_tests_failed": {"--again"},
    "tests_failed": {"--provide"},
    "hidden_tests_failed": {"--provide"},
    "executor_failed": {"--provide"},
    "invalid_input": {"--test"},
    "proposal_unconfirmed": {"the proposed options"},
}


@pytest.mark.parametrize("code", REASONS)
def test_every_code_lists_what_a_retry_line_may_add(code: str) -> None:
    assert {str(offer) for offer in REASONS[code].retry} == OFFERED.get(code, set())


def test_a_code_that_is_not_known_offers_nothing() -> None:
    assert offers_for("of_a_later_version") == frozenset()


@pytest.mark.parametrize("code", REASONS)
def test_no_advice_names_an_option_that_a_retry_line_may_not_add(code: str) -> None:
    named = set(re.findall(r"--allow(?:-[a-z]+)?", REASONS[code].advice))
    assert not named or REASONS[code].family == "bad_input"


def test_an_unknown_code_without_a_family_is_a_final_refusal() -> None:
    assert (family_of("of_a_later_version"), passes("of_a_later_version")) == ("refused", False)
    assert family_of("of_a_later_version", "infrastructure") == "infrastructure"
    assert advice_for("of_a_later_version") is None


def test_no_family_ends_like_a_success() -> None:
    assert EXIT_CODES.keys() == set(FAMILIES)
    assert 0 not in EXIT_CODES.values()


def test_only_what_cannot_be_had_may_be_sent_again_as_it_is() -> None:
    assert {reason.family for reason in REASONS.values() if reason.passing} == {"infrastructure"}


@pytest.mark.parametrize("code", ["git_missing", "artifact_missing", "object_missing"])
def test_what_a_host_or_a_store_lacks_is_no_verdict(code: str) -> None:
    assert family_of(code) == "infrastructure"


def test_a_repository_that_cannot_be_read_is_bad_input_with_advice() -> None:
    assert family_of("repository_unreadable") == "bad_input"
    assert "right to read" in (advice_for("repository_unreadable") or "")
