"""Replies that could be read in two ways, or that aim outside the repository, are refused with the reason."""

from __future__ import annotations

import contextlib
import time

import pytest

from gatewright.errors import ExtractionError
from gatewright.services.worker.reply.files import MAX_FILES, MAX_REPLY_BYTES, extract

GOOD = "Create file `good.py`:\n```python\nx\n```\n\n"


def refusal(reply: str | bytes) -> str:
    with pytest.raises(ExtractionError) as refused:
        extract(reply.encode() if isinstance(reply, str) else reply)
    assert refused.value.reason == "reply_not_usable"
    return refused.value.message


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../outside.py",
        "src/../../outside.py",
        "src/./a.py",
        "src//a.py",
        "src/",
        ".git/hooks/pre-commit",
        "src/.GIT/config",
        "src/git~1/config",
        ".git./config",
        "sub/.g\u200cit/config",
        "src\\..\\..\\a.py",
        "C:\\a.py",
        "a\x07.py",
        "a\u202egnp.py",
        "a" * 300,
    ],
)
@pytest.mark.parametrize(
    "form",
    [
        "Create file `{path}`:\n```\nx\n```\n",
        "```\n# file: {path}\nx\n```\n",
        "--- filename: {path} ---\nx\n",
        "cat > '{path}' <<'EOF'\nx\nEOF\n",
    ],
)
def test_an_unsafe_path_is_refused_in_every_form(form: str, path: str) -> None:
    assert "line" in refusal(GOOD + form.format(path=path))


@pytest.mark.parametrize("path", ["$HOME/.ssh/id", '"$HOME/a"', "~/a", "src/*.py", "src/{a,b}.py", "a[1].py"])
def test_a_heredoc_path_that_a_shell_would_expand_is_refused(path: str) -> None:
    assert "expand" in refusal(f"cat > {path} <<'EOF'\nx\nEOF\n")


def test_a_reply_without_files_is_refused() -> None:
    assert "holds no file" in refusal("All done, the tests pass.")
    assert "holds no file" in refusal("")
    assert "holds no file" in refusal("```python\nx\n```\n")


def test_two_names_for_one_block_are_refused() -> None:
    assert "two names" in refusal("Create file `a.py`:\n```python\n# file: b.py\nx\n```\n")
    assert "one whole file" in refusal("Create files `a.py` and `b.py`:\n```python\nx\n```\n")


def test_a_path_twice_with_different_content_is_refused() -> None:
    reply = "Create file `a.py`:\n```python\nx\n```\nUpdate file `a.py`:\n```python\ny\n```\n"
    assert "twice, on lines 2 and 6" in refusal(reply)


def test_a_path_twice_in_two_spellings_is_one_path() -> None:
    reply = "Create file `a.py`:\n```python\nx\n```\nUpdate file `./a.py`:\n```python\ny\n```\n"
    assert "twice" in refusal(reply)


def test_a_file_split_over_two_blocks_is_refused() -> None:
    assert "part of it" in refusal("Create file `a.py`:\n```python\nx\n```\n\n```python\ny\n```\n")


@pytest.mark.parametrize(
    "words",
    [
        "Add this to `src/a.py`:",
        "In the file `src/a.py`, add this function:",
        "Append to the file `src/a.py`:",
        "Change line 3 of `src/a.py`:",
        "Now edit `src/a.py`:",
        "Replace the body of `f` in `src/a.py`:",
    ],
)
def test_a_part_of_a_file_is_refused(words: str) -> None:
    assert "Update file `src/a.py`" in refusal(f"{GOOD}{words}\n\n```python\ny = 1\n```\n")


@pytest.mark.parametrize(
    "line",
    [
        "# ... existing code ...",
        "// ... rest of the file unchanged",
        "    # ... (rest of the class)",
        "/* ... other methods ... */",
        "...existing imports...",
        "<!-- ... unchanged ... -->",
        "# … remaining tests …",
    ],
)
def test_a_file_with_a_part_left_out_is_refused(line: str) -> None:
    assert "leaves out a part" in refusal(f"Update file `a.py`:\n```python\nx = 1\n{line}\ny = 2\n```\n")


def test_an_ellipsis_of_the_language_is_no_omission() -> None:
    reply = "Update file `a.pyi`:\n```python\ndef f() -> int:\n    ...\n# ... and so on\nx: tuple[int, ...]\n```\n"
    assert len(extract(reply.encode()).files) == 1


def test_a_diff_is_not_a_file() -> None:
    assert "diff" in refusal("Update file `a.py`:\n```diff\n-x\n+y\n```\n")


@pytest.mark.parametrize(
    "reply",
    [
        GOOD + "Create file `a.py`:\n```python\nx = 1\n",
        GOOD + "Create file `a.py`:\n````python\nx = 1\n```\n",
        GOOD + "Create file `a.py`:\n```python\nx = 1\n``` python\n",
        GOOD + "cat > a.py <<'EOF'\nx\n EOF\n",
        GOOD + "```bash\ncat > a.py <<'EOF'\nx\n```\nEOF\n```\n",
    ],
)
def test_a_reply_that_was_cut_off_is_refused(reply: str) -> None:
    assert "never" in refusal(reply)


def test_fences_of_equal_length_inside_each_other_are_refused() -> None:
    reply = "Create file `README.md`:\n```markdown\n# Hi\n```python\nx\n```\nmore\n```\n"
    assert "never closed" in refusal(reply)


def test_an_unquoted_heredoc_that_a_shell_would_change_is_refused() -> None:
    for text in ("echo $HOME", "`id`", "a\\b"):
        assert "quote the delimiter" in refusal(f"cat > a.sh << EOF\n{text}\nEOF\n")


@pytest.mark.parametrize(
    "command",
    [
        "cat >> a.py << 'EOF'",
        "tee a.py << 'EOF'",
        "cat << 'EOF' | tee a.py",
        "sudo tee /etc/hosts << 'EOF'",
        "python - << 'EOF' > a.py",
    ],
)
def test_other_ways_to_write_by_heredoc_are_refused(command: str) -> None:
    assert "cat > path" in refusal(f"{GOOD}```bash\n{command}\nx\nEOF\n```\n")


def test_a_heredoc_after_a_change_of_directory_is_refused() -> None:
    for move in ("cd src", "pushd src", "mkdir -p src && cd src"):
        assert "change of directory" in refusal(f"```bash\n{move}\ncat > a.py <<'EOF'\nx\nEOF\n```\n")


def test_a_heredoc_hidden_in_another_heredoc_writes_nothing() -> None:
    reply = GOOD + "```bash\npython - <<'OUT'\ncat > evil.py <<'IN'\nx\nIN\nOUT\n```\n"
    assert [path for path, _ in extract(reply.encode()).files] == ["good.py"]


def test_a_header_inside_an_open_fence_of_a_plain_file_is_refused() -> None:
    assert "open fence" in refusal("--- filename: a.md ---\ntext\n```\n--- filename: b.md ---\nother\n")


def test_a_named_block_inside_a_plain_file_is_refused() -> None:
    assert "which file is it" in refusal("--- filename: a.md ---\ntext\n\nCreate file `b.py`:\n```python\nx\n```\n")


def test_a_file_that_would_also_be_a_directory_is_refused() -> None:
    assert "as a directory" in refusal("Create file `a`:\n```\nx\n```\nCreate file `a/b`:\n```\ny\n```\n")


def test_bytes_that_are_no_text_are_refused() -> None:
    assert "UTF-8" in refusal(b"Create file `a.py`:\n```\n\xff\n```\n")
    assert "NUL" in refusal(b"Create file `a.py`:\n```\n\0\n```\n")


def test_more_files_or_bytes_than_a_reply_has_are_refused() -> None:
    many = "".join(f"Create file `f{n}`:\n```\n```\n" for n in range(MAX_FILES + 1))
    assert str(MAX_FILES) in refusal(many)
    assert "bytes" in refusal(b" " * (MAX_REPLY_BYTES + 1))


@pytest.mark.parametrize(
    "unit",
    [
        "```\n",
        "~~~~\n```\n",
        "- ```x\n",
        "cat > a <<'E'\nE\n",
        "```bash\npython <<'E'\nE\n```\n",
        "--- filename: a ---\n",
        "--- filename: " + "x-" * 500 + "\n",
        "Create file `a` " * 30 + "\n```\n```\n",
        "`" * 400 + "\n",
        "# ... " + "(" * 200 + "\n",
        "\t" * 400 + "x\n",
        "mkdir -p a && " * 60 + "\n",
    ],
)
def test_hostile_repetition_costs_linear_time(unit: str) -> None:
    reply = (unit * (250_000 // len(unit))).encode()
    started = time.process_time()
    with contextlib.suppress(ExtractionError):
        extract(reply)
    assert time.process_time() - started < 3
