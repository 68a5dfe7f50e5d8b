"""A change is read where it is decided, however large it is: listed, filtered, loaded file by file, and never another one."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import tostring

import pytest
from playwright.sync_api import Browser, expect

from gatewright.app.console.change_browser import MOST_LISTED, ChangeIndex, draw_change, draw_file, draw_tree, index_change
from gatewright.app.console.drawing import LIMITS
from gatewright.app.report.patch import parse_patch, split_patch
from tests.attacks.people import Files
from tests.console.conftest import ServedConsole
from tests.console.deciding import DecidingConsole, open_deciding
from tests.console.test_browser import browser, faults
from tests.console.test_deciding import sign_in
from tests.console.test_pages import TOKEN, Markup, ask, send_json
from tests.console.test_pages_of_deciders import person_with_passkey
from tests.evidence.recorded_runs import MAKERS
from tests.git.repositories import MakeRepository, Repository
from tests.report.conftest import PATCH
from tests.view.ledgers import make_run

__all__ = ["browser"]
RUN = "run-0123456789"
MANY = 130
#: Odd names, a binary file, a mode, a deletion, no line end, lines that look like headers.
ODD: Files = {
    "src/a b.py": b"x\n",
    'src/"><img src=x>.py': b"y\n",
    "src/deep/er/one/n.bin": bytes(range(256)) * 4,
    "src/tricky.txt": b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n++ plus\n-- minus",
    "src/gone.py": None,
}


def text_of(index: ChangeIndex, wanted: str = "") -> str:
    return "".join(tostring(each, encoding="unicode", method="html") for each in draw_change(index, RUN, wanted, LIMITS))


def file_text(index: ChangeIndex, number: int, skipped: int = 0) -> str:
    drawn = draw_file(index, RUN, number, skipped, LIMITS)
    return "".join(tostring(each, encoding="unicode", method="html") for each in drawn)


def patch_of(count: int, folder: str = "src/part{0}/file{1}.py") -> bytes:
    """A change of so many files, each with one new line."""
    made = []
    for number in range(count):
        name = folder.format(number % 40, number)
        made.append(
            f"diff --git a/{name} b/{name}\nindex 1..2 100644\n--- a/{name}\n+++ b/{name}\n"
            f"@@ -1,1 +1,2 @@\n kept\n+new{number}\n"
        )
    return "".join(made).encode()


def odd_patch(repository: Repository) -> bytes:
    repository.commit({"src/gone.py": b"old\n", "src/mode.sh": b"true\n"})
    for name, content in ODD.items():
        target = repository.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        if content is not None:
            target.write_bytes(content)
    (repository.path / "src/mode.sh").chmod(0o755)
    repository.git("add", "--all")
    return repository.git("diff", "--cached", "--binary", "--no-renames", "HEAD")


def test_a_patch_is_split_as_it_is_parsed(make_repository: MakeRepository) -> None:
    for patch in (odd_patch(make_repository()), PATCH, patch_of(3), b"", b"no patch\n"):
        spans, parsed = split_patch(patch), parse_patch(patch)
        assert [(each.path, each.kind, each.binary, each.added, each.removed) for each in spans] == [
            (each.path, each.kind, each.binary, each.added, each.removed) for each in parsed
        ]
        for span, file in zip(spans, parsed, strict=True):
            (alone,) = parse_patch(patch[span.start : span.end])
            assert alone.hunks == file.hunks


def test_names_of_files_become_no_markup(make_repository: MakeRepository) -> None:
    patch = odd_patch(make_repository())
    index = index_change(patch, len(patch))
    for text in (text_of(index), *(file_text(index, number) for number in range(1, len(index.files) + 1))):
        assert "img" not in Markup(text).tags


def test_a_small_change_stands_in_the_page_with_its_lines() -> None:
    patch = patch_of(12)
    text = text_of(index_change(patch, len(patch)))
    assert all(f"new{number}" in text for number in range(12))
    assert "data-part" not in text


def test_a_large_change_page_is_bounded_and_filterable() -> None:
    patch = patch_of(20_000)
    index = index_change(patch, len(patch))
    text = text_of(index)
    assert text.count('class="file"') == MOST_LISTED
    assert "17,500 more match" in text
    assert len(text) < 1_500_000
    found = text_of(index, "PART39/ file19999.py")
    assert re.findall(r'id="file-(\d+)"', found) == ["20000"]
    assert "new19999" in file_text(index, 20_000)


def test_a_long_file_is_read_to_its_end_piece_by_piece() -> None:
    lines = "".join(f"+line {number}\n" for number in range(4_000))
    patch = f"diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n@@ -0,0 +1,4000 @@\n{lines}".encode()
    index = index_change(patch, len(patch))
    seen, address, skipped = "", "", 0
    while True:
        text = file_text(index, 1, skipped)
        seen += text
        following = re.search(r"from=(\d+)", text)
        if following is None:
            break
        skipped, address = int(following[1]), text
    assert 'href="' in address
    assert all(f'id="file-1-new-{number}"' in seen for number in range(1, 4_001))
    assert len(re.findall(r'id="file-1-new-\d+"', seen)) == 4_000


def test_hostile_depth_of_folders_is_drawn_without_recursion() -> None:
    patch = patch_of(20, "a/" * 1_500 + "part{0}/file{1}.py")
    text = text_of(index_change(patch, len(patch)))
    assert text.count('class="folder"') <= 12
    assert text.count('class="file"') == 20


def test_what_a_filter_holds_is_no_markup_and_finds_nothing() -> None:
    patch = patch_of(20)
    index = index_change(patch, len(patch))
    text = text_of(index, '"><script>x</script>')
    assert "script" not in Markup(text).tags
    assert text.count('class="file"') == 0
    assert "0 of 20 files are listed" in "".join(each.text or "" for each in draw_tree(index, RUN, "<script>", LIMITS))


@pytest.fixture
def deciding(tmp_path: Path, make_repository: MakeRepository) -> Iterator[DecidingConsole]:
    """A run that changes many files, and waits."""
    files: Files = {f"src/part{number % 7}/file{number}.py": b"new%d\n" % number for number in range(MANY)}
    console = ServedConsole(tmp_path, decides=True, tokens={TOKEN: "approver"})
    with open_deciding(console, make_repository(), tmp_path, files) as deciding:
        yield deciding


def test_each_file_is_loaded_from_exactly_the_change_that_is_decided(deciding: DecidingConsole) -> None:
    console, run_id = deciding.console, deciding.request.run_id
    approver = sign_in(console, TOKEN)
    page = ask(console, f"/runs/{run_id}", headers=approver).text
    addresses = [html.unescape(each) for each in re.findall(r'data-part="([^"]+)"', page)]
    assert len(addresses) == MANY
    assert "new17" not in page
    assert page.index('id="decide"') < page.index('id="change"') < page.index('id="tests"') < page.index('id="gates"')
    seen = "".join(ask(console, f"{each}&part=1", headers=approver).text for each in addresses[:20])
    assert len(re.findall(r"new\d+", seen)) == 20
    whole = ask(console, addresses[0], headers=approver)
    assert ("Next file" in whole.text, whole.status) == (True, 200)
    listed = ask(console, f"/runs/{run_id}/files?match=part3&part=1", headers=approver).text
    assert listed.count("data-part") == len([number for number in range(MANY) if number % 7 == 3])

    another = addresses[0].partition("?")[0] + "?change=" + "0" * 16
    refused = ask(console, f"{another}&part=1", headers=approver)
    assert (refused.status, "approval_void" in refused.text, "new" in refused.text) == (409, True, False)
    assert ask(console, f"/runs/{run_id}/files/{MANY + 1}", headers=approver).status == 400
    assert ask(console, f"/runs/{run_id}/files/0", headers=approver).status == 400
    assert ask(console, f"/runs/run-{'f' * 20}/files/1", headers=approver).status == 404
    assert ask(console, addresses[0]).status == 303


def test_comments_are_shown_with_their_words_and_their_authors(deciding: DecidingConsole) -> None:
    console, run_id = deciding.console, deciding.request.run_id
    approver = sign_in(console, TOKEN)
    words = "Accounting agrees <b>with</b> half up."
    sent = deciding.signed("comment", comment=words)
    assert send_json(console, "/decisions", sent, approver).status == 200
    for path in (f"/runs/{run_id}", "/needs"):
        page = ask(console, path, headers=approver).text
        shown = page.partition("<blockquote>" + html.escape(words))
        assert shown[1]
        assert "ana (comment)" in shown[0][-400:]


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_the_page_of_a_run_has_no_empty_section(tmp_path: Path, name: str) -> None:
    console = ServedConsole(tmp_path)
    console.open()
    recorded = MAKERS[name]()
    console.write(recorded.transitions)
    page = ask(console, f"/runs/{recorded.run.run_id}").text
    console.close()
    parts = re.findall(r'<details class="part"[^>]*><summary><h2>[^<]*</h2></summary>(.*?)</details>', page, re.DOTALL)
    sections = re.findall(r'<section id="(?:change|tests|gates)"><h2>[^<]*</h2>(.*?)</section>', page, re.DOTALL)
    assert all(Markup(each).text.strip() for each in (*parts, *sections))
    for none in ("No repair was ordered", "No person has voted", "No review took place", "No gate has judged"):
        assert none not in page
    assert page.index('id="more"') < page.index('id="timeline"')


@pytest.mark.long
def test_a_change_of_2000_files_is_read_and_approved_in_the_page(
    browser: Browser, tmp_path: Path, make_repository: MakeRepository
) -> None:
    files: Files = {f"src/part{number % 40}/file{number}.py": b"new%d\n" % number for number in range(2_000)}
    console = ServedConsole(tmp_path, decides=True)
    with open_deciding(console, make_repository(), tmp_path, files) as deciding:
        origin = f"http://localhost:{console.port}"
        page, _ = person_with_passkey(browser, origin, "ana", tmp_path / "policies")
        address = f"{origin}/runs/{deciding.request.run_id}"
        assert len(ask(console, f"/runs/{deciding.request.run_id}").data) < 1_500_000
        page.goto(address)
        expect(page.locator("details.file")).to_have_count(2_000)
        file = page.locator("details.file").nth(1_500)
        file.locator("summary").click()
        expect(file.locator("td.src")).to_contain_text("new")
        page.get_by_role("searchbox", name="Filter files").fill("file1999.py")
        expect(page.locator("details.file")).to_have_count(1)
        page.locator("h1").click()
        page.keyboard.press("]")
        expect(page.locator("details.file > summary")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("#file-tree td.src")).to_contain_text("new1999")
        console.write(make_run(3, "open"))
        expect(page.locator("#file-tree td.src")).to_contain_text("new1999")
        page.goto(f"{address}#file-7-new-1")
        expect(page.locator("#file-7-new-1")).to_be_visible()
        assert faults(page) == []
        assert page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")
        page.get_by_role("button", name="Approve").click()
        expect(page.locator(".verdict")).to_have_text("Landed")
        assert deciding.status() == "SUCCESS"
        page.close()
