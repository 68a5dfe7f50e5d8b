"""Text of agents and requests means nothing to a forge."""

from __future__ import annotations

import pytest
from markdown_it import MarkdownIt

from gatewright.app.forge.text import MOST_COMMENT, join_bounded, marker_of, quote, safe_title, span
from tests.forge.outward.runs import ForgeRun, wanted

HOSTILE = [
    "@acme/everyone please look",
    "closes #12, fixes acme/shop#13 and GH-14",
    "![x](https://evil.example/pixel.png)",
    "[click](javascript:alert(1))",
    "<img src=x onerror=alert(1)>",
    "<script>alert(1)</script>",
    "/merge\n/approve",
    "```\n/close\n```\n# heading",
    "~~~~\n@all\n~~~~",
    "````````\n<b>bold</b>",
    "<!-- gatewright:run-0123456789 -->",
    "\x1b[2J\x1b]8;;https://evil.example\x07link\x1b]8;;\x07",
    "\u202egnp.exe\u2066",
    "https://evil.example/x?y=1",
    "www.evil.example",
    "| a | b |\n|---|---|\n| c | d |",
    "> quote\n- [x] done",
    "&lt;b&gt; &#64;ana",
    "a\u2028b\u0085c\r\nd",
    "`" * 500,
    "x" * 200_000,
    "\n" * 5_000,
    "$(touch /tmp/x)",
    "Draft: [skip ci] WIP",
]
#: What the ledger cannot have, and a forge can.
LONE_SURROGATE = "\ud800 lone"


def rendered_outside_code(text: str) -> str:
    """The text of everything that is neither a code span nor a code block."""
    words = []
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type == "fence":
            continue
        if token.type == "html_block":
            words.append(token.content)
        words += [child.content for child in token.children or () if child.type != "code_inline"]
        words += [child.type for child in token.children or () if child.type in {"link_open", "image", "html_inline"}]
    return "\n".join(words)


@pytest.mark.parametrize("text", [*HOSTILE, LONE_SURROGATE])
def test_hostile_text_stays_inside_code(text: str) -> None:
    for shown in (span(text), "\n".join(quote(text))):
        assert rendered_outside_code(shown).strip() == ""
        assert "<!--" not in shown
        assert "\x1b" not in shown
        shown.encode()


@pytest.mark.parametrize("text", HOSTILE)
def test_a_title_has_no_sign_that_a_forge_interprets(text: str) -> None:
    title = safe_title(text, "run-1")
    assert 0 < len(title) <= 100
    assert not set(title) & set("@#!/<>[](){}:`~^|*&$%\\\n\x1b")
    assert "gh-" not in title.lower()


@pytest.mark.parametrize("text", HOSTILE)
def test_a_comment_about_a_hostile_failure_has_one_marker(text: str) -> None:
    run = ForgeRun(key="hostile", number=7, words=text or "x").fail("tests_failed", text)
    comment = wanted(run).comment
    assert comment.count("<!--") == 1
    assert comment.startswith(marker_of(run.run_id))
    outside = rendered_outside_code(comment)
    assert "evil.example" not in outside
    assert "@" not in outside
    assert len(comment.encode()) <= MOST_COMMENT + 200


@pytest.mark.parametrize("text", HOSTILE)
def test_the_body_of_a_request_fences_the_order(text: str) -> None:
    found = wanted(ForgeRun(key="own", publisher="default", words=text).succeed())
    assert found.request is not None
    body = found.request.body
    assert body.count("<!--") == 1
    assert "@" not in rendered_outside_code(body)
    assert "evil.example" not in rendered_outside_code(body)


def test_a_long_text_is_left_out_with_a_note() -> None:
    shown = join_bounded(["x" * 1_000] * 100)
    assert len(shown) < MOST_COMMENT + 200
    assert shown.endswith("it exceeds the limit of a comment.")
