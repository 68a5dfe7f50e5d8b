"""Fences are found where CommonMark finds them; markdown-it-py, an implementation of its own, is the oracle."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from gatewright.services.worker.reply.blocks import Fence, UnclosedError, scan

LINES = st.sampled_from(
    [
        *("text", "", " ", "```", "````", "`````", "~~~", "~~~~", "```py", "~~~ a b", "```` x", "``` a`b", "~~~ a`b", " ```"),
        *("  ~~~", "   ````", "``` ", "  text", "``", "`code`", "~~", "```~~~", "~~~```"),
    ]
)


def oracle(text: str) -> list[tuple[str, str]]:
    tokens = MarkdownIt("commonmark").parse(text)
    return [(token.info.strip(), token.content) for token in tokens if token.type == "fence"]


@given(st.lists(LINES, max_size=14))
def test_fences_are_those_of_commonmark(lines: list[str]) -> None:
    # CommonMark closes an open fence at the end of the text; then it swallows what is added there.
    left_open = any(content.rstrip().endswith("after") for _, content in oracle("\n".join([*lines, "", "after"])))
    if left_open:
        with pytest.raises(UnclosedError):
            scan(lines, fences_only=True)
        return
    found = [element for element in scan(lines, fences_only=True) if isinstance(element, Fence)]
    assert [(fence.info, "".join(f"{line}\n" for line in fence.content)) for fence in found] == oracle("\n".join(lines))
