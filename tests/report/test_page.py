"""The page of a run: all there, harmless whatever the bundle holds, and loud where the bundle does not verify."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from gatewright.app.report.limits import PageLimits
from gatewright.evidence.writer import BundleWriter
from tests.evidence.recorded_runs import RecordedRun, make_success
from tests.evidence.remembered_runs import make_remembered
from tests.report.conftest import HOSTILE, HostileRun, MakePage, SealRun
from tests.series import lengths, series

#: Little of everything: what is looked for is whether the page is made at all.
FAST = PageLimits(patch=2_000, links=0, outputs=2_000)
ALLOWED_TAGS = {
    *("html", "head", "meta", "title", "style", "body", "aside", "header", "nav", "section", "footer", "h1", "h2", "h3"),
    *("p", "b", "a", "span", "div", "code", "pre", "ul", "li", "dl", "dt", "dd", "details", "summary"),
    *("table", "tbody", "tr", "td", "svg", "line", "rect", "circle", "text"),
}


class Reader(HTMLParser):
    """What a browser's parser would find: tags, attributes, and the text between."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text = ""
        self.style = ""
        self._inside: str = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._inside = tag
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "style":
            self.style += data
        else:
            self.text += data


def read(page: bytes) -> Reader:
    reader = Reader()
    reader.feed(page.decode("utf-8"))
    return reader


def test_every_run_has_a_page_with_all_its_sections(recorded: RecordedRun, seal: SealRun, make_page: MakePage) -> None:
    page = read(make_page(seal(recorded)))
    for title in ("Timeline", "Gates", "Change", "Review", "Tests", "Evidence"):
        assert title in page.text
    assert "Verified." in page.text
    assert recorded.run_id in page.text
    failure = recorded.run.failure
    assert failure is None or failure.code in page.text


def test_the_plan_is_held_against_the_evidence_as_advice(seal: SealRun, make_page: MakePage) -> None:
    page = make_page(seal(make_remembered("landed"))).decode()
    assert "The plan against the evidence" in page
    assert "1 of 2 shards are not done." in page
    assert "accepted, nothing of it changed" in page


def test_page_of_the_same_bundle_is_the_same(seal: SealRun, make_page: MakePage) -> None:
    bundle = seal(make_success())
    assert make_page(bundle) == make_page(bundle)


def test_page_needs_nothing_but_itself(seal: SealRun, make_page: MakePage, recorded: RecordedRun) -> None:
    page = read(make_page(seal(recorded)))
    assert set(page.tags) <= ALLOWED_TAGS | {"title"}
    for tag, name, value in page.attributes:
        assert not name.startswith("on"), (tag, name)
        assert name not in {"style", "src", "srcset", "action", "formaction", "background"}, (tag, name)
        if name == "href":
            assert value.startswith(("#", "data:application/octet-stream;base64,"))
    assert "url(" not in page.style
    assert "@import" not in page.style


def test_policy_of_the_page_allows_its_own_style_and_nothing_else(seal: SealRun, make_page: MakePage) -> None:
    page = read(make_page(seal(make_success())))
    policies = [value for tag, name, value in page.attributes if tag == "meta" and name == "content" and "default-src" in value]
    digest = base64.b64encode(hashlib.sha256(page.style.encode()).digest()).decode()
    assert policies == [f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"]


def test_hostile_words_stay_words(make_hostile_run: Callable[..., HostileRun], seal: SealRun, make_page: MakePage) -> None:
    data = make_page(seal(make_hostile_run()))
    page = read(data)
    assert set(page.tags) <= ALLOWED_TAGS
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert page.text.count("<script>alert(1)</script>") >= 10, "every place shows it as text"
    assert "<script>alert(2)</script>" in page.text, "the change"
    assert r"src/<script>alert(3)</script>é\n\xff.py" in page.text, "the name of a file"
    assert "<script>alert(4)</script>red" in page.text, "the output of a test, its colours taken off"
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\u2028]", data.decode())
    assert r"\u202egnp.exe\x00\u2028" in page.text


def test_binary_change_is_noted_and_not_shown(
    make_hostile_run: Callable[..., HostileRun], seal: SealRun, make_page: MakePage
) -> None:
    page = read(make_page(seal(make_hostile_run())))
    assert "logo.png" in page.text
    assert "A binary change" in page.text
    assert "LcmZQzU" not in page.text


def test_output_of_50_mb_is_truncated_with_a_note(
    make_hostile_run: Callable[..., HostileRun], seal: SealRun, make_page: MakePage
) -> None:
    data = make_page(seal(make_hostile_run(b"first line\n" + b"<b>x</b>\x1b[0m" * 4_200_000 + b"\nlast line\n")))
    page = read(data)
    assert len(data) < 2_000_000
    assert "first line" in page.text
    assert "last line" in page.text
    assert "50.4 MB" in page.text
    assert "left out here; the whole is in ci/" in page.text


def test_altered_bundle_is_marked_and_its_success_only_claimed(seal: SealRun, make_page: MakePage) -> None:
    bundle = seal(make_success())
    altered = bundle / "patch.diff"
    altered.chmod(0o644)
    altered.write_bytes(altered.read_bytes() + b"+evil\n")
    page = read(make_page(bundle))
    assert "Not verified: the checks found faults" in page.text
    assert "Do not rely on it" in page.text
    assert "Claims: landed" in page.text
    assert "size_differs" in page.text
    assert "Verified." not in page.text


@pytest.mark.parametrize(
    ("breaking", "words"),
    [("manifest.json", "Incomplete"), ("events.jsonl", "Incomplete"), ("contract.json", "Incomplete")],
)
def test_bundle_without_a_file_has_a_page_with_a_note(seal: SealRun, make_page: MakePage, breaking: str, words: str) -> None:
    bundle = seal(make_success())
    (bundle / breaking).unlink()
    assert words in read(make_page(bundle)).text


@pytest.mark.parametrize(
    ("damage", "every"),
    [*lengths(("flip", 4), ("flip", 1)), *series([(kind, 1) for kind in ("gone", "cut", "empty")])],
)
def test_page_of_a_damaged_bundle_is_always_made_and_marked(
    seal: SealRun, make_page: MakePage, damage: str, every: int
) -> None:
    bundle = seal(make_success())
    for path in sorted(path for path in bundle.rglob("*") if path.is_file())[::every]:
        data = path.read_bytes()
        if not data:
            continue
        path.unlink()
        if damage == "flip":
            middle = len(data) // 2
            path.write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])
        elif damage != "gone":
            path.write_bytes(data[: len(data) // 2] if damage == "cut" else b"")
        assert b"Do not rely on it" in make_page(bundle, FAST), path
        path.unlink(missing_ok=True)
        path.write_bytes(data)
    assert b"Verified." in make_page(bundle)


def test_folder_of_rubbish_still_has_a_page(tmp_path: Path, make_page: MakePage) -> None:
    bundle = tmp_path / "<script>"
    bundle.mkdir()
    (bundle / "events.jsonl").write_bytes(b"\xff\x00 not json\n" * 50)
    (bundle / "manifest.json").write_bytes(b"[" * 10_000)
    (bundle / "link").symlink_to("/etc/passwd")
    (bundle / "patch.diff").write_bytes(b'diff --git \n@@ -1 +1 @@\n+x\ndiff --git "\n' + bytes(range(256)))
    page = read(make_page(bundle))
    assert "Malformed" in page.text
    assert "root:" not in page.text
    assert set(page.tags) <= ALLOWED_TAGS


def test_open_run_is_shown_as_far_as_it_goes(tmp_path: Path, make_page: MakePage) -> None:
    run = RecordedRun()
    run.accept()
    run.plan()
    asyncio.run(BundleWriter(tmp_path).append(run.run, run.records))
    page = read(make_page(tmp_path / run.run_id))
    assert "Incomplete" in page.text
    assert "Claims: still open" in page.text
    assert "plan.w01" in page.text


def test_content_beyond_the_limits_is_marked_as_omitted(seal: SealRun, make_page: MakePage) -> None:
    bundle = seal(make_success())
    page = read(make_page(bundle, PageLimits(patch=20, rows=2, links=0)))
    assert "more verdicts are not shown" in page.text
    assert "more files are not listed here" in page.text
    assert "The whole is in patch.diff" in page.text
    assert not [value for _, name, value in page.attributes if name == "href" and value.startswith("data:")]


def test_small_files_can_be_saved_from_the_page(seal: SealRun, make_page: MakePage) -> None:
    bundle = seal(make_success())
    page = read(make_page(bundle))
    held = {base64.b64decode(value.partition(",")[2]) for _, name, value in page.attributes if name == "href" and "," in value}
    assert (bundle / "contract.json").read_bytes() in held
    assert (bundle / "manifest.dsse.json").read_bytes() in held


def test_hostile_words_do_not_hide_in_attributes(
    make_hostile_run: Callable[..., HostileRun], seal: SealRun, make_page: MakePage
) -> None:
    page = read(make_page(seal(make_hostile_run())))
    assert all(HOSTILE not in value for _, _, value in page.attributes)
