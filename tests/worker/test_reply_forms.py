"""The four forms in which a reply may hold files, and what of a reply is left out."""

from __future__ import annotations

import pytest

from gatewright.services.worker.reply.files import extract


def files(reply: str) -> dict[str, str]:
    return {path: content.decode() for path, content in extract(reply.encode()).files}


@pytest.mark.parametrize(
    "words",
    [
        "Create file `src/main.rs`:",
        "Create a new file `src/main.rs`:",
        "I will now create the file `src/main.rs` with the following content:",
        "The file `src/main.rs` should have the following content:",
        "File named `src/main.rs` with this code:",
        "Update file `src/main.rs`:",
        "Update `src/main.rs` with this code:",
        "First we tidy up. Then update the existing file `src/main.rs` as follows:",
        "**`src/main.rs`**",
        "### `src/main.rs`",
        "### 1. `src/main.rs` (new file)",
        "`src/main.rs`:",
        "`src/main.rs` content:",
        "Contents of `src/main.rs`:",
        "Here is the complete `src/main.rs`:",
        "2. Write the file `src/main.rs`:",
        "Create file `src/main.rs`\nwith the following content:",
        "Create file `./src/main.rs`:",
    ],
)
def test_words_before_a_block_name_the_file(words: str) -> None:
    reply = f"Sure, here it is.\n\n{words}\n\n```rust\nfn main() {{}}\n```\n"
    assert files(reply) == {"src/main.rs": "fn main() {}\n"}


@pytest.mark.parametrize(
    ("language", "first"),
    [
        ("python", "# file: src/a.py"),
        ("python", "# filename: `src/a.py`"),
        ("", "# file: src/a.py"),
        ("js", "// filename: src/a.py"),
        ("css", "/* file: src/a.py */"),
        ("html", "<!-- filename: src/a.py -->"),
        ("sql", "-- file: src/a.py"),
        ("python", "# src/a.py"),
        ("py", "# src/a.py"),
    ],
)
def test_a_first_line_comment_names_the_file_and_is_removed(language: str, first: str) -> None:
    assert files(f"```{language}\n{first}\nx = 1\n```\n") == {"src/a.py": "x = 1\n"}


def test_a_comment_like_a_path_stays_in_a_named_block() -> None:
    reply = "Create file `README.md`:\n```markdown\n# Node.js\ntext\n```\n"
    assert files(reply) == {"README.md": "# Node.js\ntext\n"}


def test_a_heading_in_a_block_of_commands_is_not_a_name() -> None:
    reply = "Create file `a.py`:\n```python\nx\n```\n\nThen:\n\n```bash\n# src/a.py\nnpm install\n```\n"
    assert files(reply) == {"a.py": "x\n"}


def test_header_lines_separate_plain_files() -> None:
    reply = "Two files.\n\n--- filename: a.txt ---\n\nfirst\n\n  line\n\n--- File: b/c.txt ---\nsecond\n"
    assert files(reply) == {"a.txt": "first\n\n  line\n", "b/c.txt": "second\n"}


def test_a_header_before_a_fence_names_that_block_alone() -> None:
    reply = "--- filename: a.py ---\n```python\nx\n```\n\nThat is all. Run it:\n```bash\npython a.py\n```\n"
    found = extract(reply.encode())
    assert found.files == (("a.py", b"x\n"),)
    assert found.snippets == 1


@pytest.mark.parametrize(
    "command",
    [
        "cat > src/a.py << 'EOF'",
        "cat > src/a.py <<EOF",
        'cat > "src/a.py" << "EOF"',
        "cat << 'EOF' > src/a.py",
        "mkdir -p src && cat > src/a.py << 'EOF'",
        "$ cat > src/a.py <<'EOF'",
        "cat > src/a.py << \\EOF",
    ],
)
@pytest.mark.parametrize("fence", ["", "```bash\n", "```\n"])
def test_a_heredoc_writes_a_whole_file(command: str, fence: str) -> None:
    reply = f"Run this:\n\n{fence}{command}\nx = 1\n\ny = 2\nEOF\n{'```' if fence else ''}\n"
    assert files(reply) == {"src/a.py": "x = 1\n\ny = 2\n"}


def test_a_heredoc_with_a_dash_loses_its_leading_tabs() -> None:
    assert files("cat > Makefile <<-'END'\n\tall:\n\t\ttrue\n\tEND\n") == {"Makefile": "all:\ntrue\n"}


def test_several_heredocs_of_one_block_are_several_files() -> None:
    reply = "```sh\nmkdir -p a\ncat > a/x <<'E'\n1\nE\nchmod +x a/x\ncat > a/y <<'E'\n2\nE\n```\n"
    assert files(reply) == {"a/x": "1\n", "a/y": "2\n"}


def test_the_forms_may_be_mixed() -> None:
    reply = (
        "Create file `a.py`:\n```python\n1\n```\n\n```python\n# file: b.py\n2\n```\n\n"
        "cat > c.py <<'E'\n3\nE\n\n--- filename: d.py ---\n4\n"
    )
    assert files(reply) == {"a.py": "1\n", "b.py": "2\n", "c.py": "3\n", "d.py": "4\n"}


def test_snippets_without_a_name_are_left_out_and_counted() -> None:
    reply = (
        "Use it like this:\n```python\nimport a\n```\nCreate file `a.py`:\n```python\nx\n```\nRun it:\n```bash\npytest\n```\n"
    )
    found = extract(reply.encode())
    assert (found.files, found.snippets) == ((("a.py", b"x\n"),), 2)


def test_a_block_that_shows_fences_keeps_them() -> None:
    reply = "Create file `README.md`:\n````markdown\n# Hi\n```python\nx\n```\n````\n"
    assert files(reply) == {"README.md": "# Hi\n```python\nx\n```\n"}


def test_tildes_and_backticks_do_not_close_each_other() -> None:
    reply = "Create file `a.md`:\n~~~\n```\nx\n```\n~~~\n"
    assert files(reply) == {"a.md": "```\nx\n```\n"}


def test_a_block_in_a_list_loses_the_indentation_of_the_list_only() -> None:
    reply = "1. Create file `a.py`:\n\n   ```python\n   def f():\n       pass\n   ```\n2. Done.\n"
    assert files(reply) == {"a.py": "def f():\n    pass\n"}


def test_heredocs_and_fences_inside_a_named_file_are_its_text() -> None:
    script = "#!/bin/sh\ncat > /etc/passwd << EOF\n$HOME\nEOF\n"
    assert files(f"Create file `set-up.sh`:\n```bash\n{script}```\n") == {"set-up.sh": script}
    assert files(f"--- filename: set-up.sh ---\n{script}") == {"set-up.sh": script}


@pytest.mark.parametrize("fence", ["```", "````"])
def test_a_reply_that_wraps_itself_in_a_markdown_fence_is_unwrapped(fence: str) -> None:
    inner = "Create file `a.rs`:\n```rust\nfn a() {}\n```\nCreate file `b.rs`:\n```rust\nfn b() {}\n```\n"
    assert files(f"{fence}markdown\n{inner}{fence}\n") == {"a.rs": "fn a() {}\n", "b.rs": "fn b() {}\n"}


def test_an_empty_block_is_an_empty_file() -> None:
    assert files("Create file `pkg/__init__.py`:\n```python\n```\n") == {"pkg/__init__.py": ""}


def test_line_ends_of_a_windows_reply_are_read_as_newlines() -> None:
    assert files("Create file `a.py`:\r\n```python\r\nx\r\ny\r\n```\r\n") == {"a.py": "x\ny\n"}


def test_the_same_file_twice_with_the_same_content_is_one_file() -> None:
    block = "Create file `a.py`:\n```python\nx\n```\n"
    assert files(block + "Again:\n\n" + block) == {"a.py": "x\n"}


def test_files_of_special_names_are_known_in_plain_words() -> None:
    reply = "Create `Makefile`:\n```make\nall:\n```\n\nCreate `.gitignore`:\n```\n*.pyc\n```\n"
    assert files(reply) == {"Makefile": "all:\n", ".gitignore": "*.pyc\n"}


def test_code_in_backticks_is_not_a_file_name() -> None:
    reply = "Create `Widget` with the following code:\n```python\nx\n```\nCreate file `a.py`:\n```python\ny\n```\n"
    assert files(reply) == {"a.py": "y\n"}
