"""Lines of the change on the page of a run have permanent links, and votes on that change lead to them."""

from __future__ import annotations

import re
from types import SimpleNamespace
from xml.etree.ElementTree import tostring

import pytest
from msgspec.structs import replace

from gatewright.app.console.change_browser import draw_change, index_change, line_places
from gatewright.app.console.drawing import LIMITS, make_templates
from gatewright.app.report.account import BundleAccount
from gatewright.app.report.changes import PatchFile, changes
from gatewright.app.report.patch import parse_patch
from gatewright.app.report.verdicts import reviews
from gatewright.contracts import ReviewReport, codec
from gatewright.contracts.reports import Finding
from gatewright.evidence import layout
from gatewright.resources import schema_directory

PATCH = rb"""diff --git a/src/one.py b/src/one.py
--- a/src/one.py
+++ b/src/one.py
@@ -3,3 +3,3 @@
 kept
-old
+new
 end
diff --git "a/a\"><script>.py" "b/a\"><script>.py"
--- "a/a\"><script>.py"
+++ "b/a\"><script>.py"
@@ -1,0 +2,1 @@
+alert
"""


ANCHORS = (
    *("patch:src/one.py:-4", "patch:src/one.py:4", "patch:src/one.py:3", "patch:src/one.py:-5"),
    *('patch:a"><script>.py:2', "patch:src/one.py:99", "patch:src/two.py:1", "tests:1", "patch::"),
)
INDEX = index_change(PATCH, len(PATCH))


def drawn() -> str:
    return "".join(
        tostring(each, encoding="unicode", method="html") for each in draw_change(INDEX, "run-0123456789", "", LIMITS)
    )


def places_of() -> dict[str, str]:
    return line_places(INDEX, ANCHORS, LIMITS)


def test_every_line_number_has_an_anchor_on_its_side() -> None:
    places, text = places_of(), drawn()
    assert places["patch:src/one.py:-4"] == "file-1-old-4"
    assert places["patch:src/one.py:4"] == "file-1-new-4"
    assert (places["patch:src/one.py:3"], places["patch:src/one.py:-5"]) == ("file-1-new-3", "file-1-old-5")
    assert places['patch:a"><script>.py:2'] == "file-2-new-2"
    found = re.findall(r'<td[^>]* id="([^"]+)"', text)
    assert set(places.values()) <= set(found)
    assert len(places) == 5
    assert len(set(found)) == len(found)
    assert all(f'href="#{each}"' in text for each in found)
    assert "<script>" not in text


def test_a_report_has_no_places() -> None:
    account: BundleAccount = SimpleNamespace(files={})  # type: ignore[assignment]  # not asked where there is a patch
    candidate = PatchFile(layout.PATCH, len(PATCH), len(PATCH), parse_patch(PATCH))
    elements = changes(account, candidate, LIMITS)
    assert ' id="' not in "".join(tostring(each, encoding="unicode", method="html") for each in elements)


@pytest.mark.parametrize(("tree", "linked"), [("a" * 40, True), ("b" * 40, False)])
def test_a_vote_links_only_to_the_line_it_judged(tree: str, linked: bool) -> None:
    evidence = ("patch:src/one.py:4", "patch:src/one.py:99", 'patch:"><script>:1', "tests:1")
    cast = SimpleNamespace(
        person=SimpleNamespace(name="ana"), vote=SimpleNamespace(colour="red", rationale="no", evidence=evidence)
    )
    request = SimpleNamespace(request_id="r", rule="four-eyes", candidate_tree=tree)
    asked = [SimpleNamespace(votes=[cast], remarks=(), request=request, status="pending", consensus=None)]
    run = SimpleNamespace(candidate=SimpleNamespace(tree="a" * 40))
    places = places_of()
    text = make_templates().get_template("votes.html").render(asked=asked, run=run, sections=SimpleNamespace(places=places))
    assert ('<a href="#file-1-new-4">patch:src/one.py:4</a>' in text) is linked
    assert text.count("<a ") == int(linked)
    assert "<script>" not in text


@pytest.mark.parametrize(("tree", "linked"), [("a" * 40, True), ("b" * 40, False), (None, False)])
def test_a_finding_leads_to_its_line_where_it_is_about_this_change(tree: str | None, linked: bool) -> None:
    places = places_of()
    example = schema_directory() / "examples" / "review_report.v1" / "valid" / "full.json"
    finding = Finding(code="x", message="m", blocking=True, path="src/one.py", line=4)
    report = replace(codec.decode(example.read_bytes(), ReviewReport), tree=tree, findings=(finding,))
    elements = reviews({"t": report}, "run-0123456789", LIMITS, places, "a" * 40)
    text = "".join(tostring(each, encoding="unicode", method="html") for each in elements)
    assert ('<a href="#file-1-new-4">src/one.py:4</a>' in text) is linked
