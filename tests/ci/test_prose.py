"""`.ci/prose.py` reads what a reader of a template or of a message sees, and nothing else."""

from __future__ import annotations

from tests.test_reasons import prose_rules

TEMPLATE = """{# A comment says nothing. #}
<h1>{{ title }}</h1>
<p class="tells">Open <code>says</code> the page,
<b>now</b>.</p><p>{{ "It would pass" if good else "no" }}</p>
<button aria-label="Copy it">x</button><script>says()</script>"""


def test_a_template_is_read_as_its_reader_sees_it() -> None:
    read = [(each.line, each.text) for each in prose_rules().template_sentences(TEMPLATE)]
    assert read == [(2, "VALUE"), (3, "Open CODE the page, now."), (4, "VALUE"), (5, "Copy it"), (5, "x"), (4, "It would pass")]


def test_a_message_is_read_without_docstrings_and_single_words() -> None:
    module = 'def f(n):\n    """It says more."""\n    return f"{n} files are open. Close one.", "word"\n'
    assert [each.text for each in prose_rules().message_sentences(module)] == ["VALUE files are open.", "Close one."]


def test_a_banned_word_of_a_template_is_a_fault() -> None:
    (fault,) = prose_rules().faults("page.html", "<p>Nothing</p>\n<p>The page says so</p>")
    assert (fault.line, fault.text.partition(":")[0]) == (2, "'says'")
