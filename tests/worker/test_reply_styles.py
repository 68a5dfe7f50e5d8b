"""Replies in the styles of many models: each is read as it is meant, or refused with a reason; no part is ever lost.

All of them are made up here, after the habits of real models.
"""

from __future__ import annotations

import pytest

from gatewright.errors import ExtractionError
from gatewright.services.worker.reply.files import extract

A = "def a() -> int:\n    return 1\n"
T = "from src.a import a\n\n\ndef test_a() -> None:\n    assert a() == 1\n"
BLOCK = f"```python\n{A}```\n"
#: Words directly before a block that is ``src/a.py`` whole.
NAMED = {
    "heading_plain": "### src/a.py\n\n",
    "heading_backticks": "#### `src/a.py`\n",
    "heading_numbered": "## 1. `src/a.py`\n\n",
    "heading_numbered_plain": "### 2. src/a.py\n\n",
    "heading_file": "### File: `src/a.py`\n\n",
    "heading_file_plain": "## File: src/a.py\n",
    "heading_new": "### `src/a.py` (new)\n",
    "heading_updated_plain": "### src/a.py (updated)\n\n",
    "heading_emoji": "### 📄 `src/a.py`\n\n",
    "heading_emoji_plain": "#### 📁 src/a.py\n",
    "bold_plain": "**src/a.py**\n\n",
    "bold_colon": "**src/a.py:**\n",
    "bold_backticks_colon": "**`src/a.py`**:\n",
    "bold_file": "**File: src/a.py**\n",
    "bold_file_backticks": "**File: `src/a.py`**\n\n",
    "bold_filename": "**Filename:** `src/a.py`\n\n",
    "bold_path": "**Path:** `src/a.py`\n",
    "bold_setext": "**src/a.py**\n============\n\n",
    "setext": "src/a.py\n--------\n\n",
    "plain_line": "src/a.py\n",
    "plain_line_after_words": "I have rewritten the module.\n\nsrc/a.py\n",
    "file_label": "File: `src/a.py`\n",
    "file_label_plain": "File: src/a.py\n\n",
    "filename_label": "Filename: src/a.py\n",
    "path_label": "Path: `src/a.py`\n",
    "file_number": "File 1: `src/a.py`\n\n",
    "list_number_bold": "1. **`src/a.py`**:\n\n",
    "list_dash": "- `src/a.py`:\n\n",
    "heres_the": "Here's the updated `src/a.py`:\n\n",
    "here_is_full_code": "Here is the full updated code for `src/a.py`:\n\n",
    "heres_content": "Here's the content for `src/a.py`:\n\n",
    "ive_updated": "I've updated `src/a.py`:\n\n",
    "ive_created": "I have created the file `src/a.py` with the following content:\n\n",
    "below_is": "Below is the complete file `src/a.py`:\n\n",
    "complete_contents": "Complete contents of `src/a.py`:\n",
    "create_and_add": "Create a new file called `src/a.py` and add the following code:\n\n",
    "save_as": "Save this as `src/a.py`:\n\n",
    "replace_contents": "Replace the contents of `src/a.py` with:\n\n",
    "replace_entire": "Replace the entire contents of `src/a.py` with the following:\n\n",
    "dash_full": "**`src/a.py`** — full content:\n\n",
    "parenthesis": "`src/a.py` (full file):\n\n",
    "first_step": "**Step 1: Create `src/a.py`**\n\n",
    "now_lets": "Now let's create `src/a.py`:\n\n",
    "lets_update": "Let's update the file `src/a.py`:\n\n",
    "sure_colon": "Sure! Update file `src/a.py`:\n",
}
#: Info strings that name the file.
INFOS = (
    "python src/a.py",
    "python:src/a.py",
    'python title="src/a.py"',
    "python filename=src/a.py",
    'py file="src/a.py"',
    "python path=src/a.py",
    "src/a.py",
)


def files(reply: str) -> dict[str, str]:
    return {path: content.decode() for path, content in extract(reply.encode()).files}


@pytest.mark.parametrize("style", NAMED)
def test_words_of_many_styles_name_the_file(style: str) -> None:
    reply = f"I looked at the module first.\n\n{NAMED[style]}{BLOCK}\nLet me know if you need anything else!\n"
    assert files(reply) == {"src/a.py": A}


@pytest.mark.parametrize("info", INFOS)
def test_an_info_string_names_the_file(info: str) -> None:
    assert files(f"The new version:\n\n```{info}\n{A}```\n") == {"src/a.py": A}


@pytest.mark.parametrize(
    "reply",
    [
        # Reasoning first, with a draft that is not the answer.
        f"<think>\nMaybe:\n\nCreate file `src/a.py`:\n```python\nx = 1\n```\n</think>\n\nCreate file `src/a.py`:\n{BLOCK}",
        f"<thinking>The user wants `src/a.py`.</thinking>\nUpdate file `src/a.py`:\n{BLOCK}",
        # Everything in one outer fence.
        f"```markdown\n### `src/a.py`\n\n{BLOCK}```\n",
        # A comment that names it, as several models write it.
        f"```python\n# src/a.py\n{A}```\n",
        f"```python\n# filepath: src/a.py\n{A}```\n",
        f"```python\n# File: src/a.py (updated)\n{A}```\n",
        # What comes after: how to run it, and what was changed.
        f"**src/a.py**\n{BLOCK}\n**Explanation**\n\n- `a` returns 1.\n\n```bash\npython -m pytest -q\n```\n",
        f"### src/a.py\n{BLOCK}\nWhat changed:\n\n```diff\n--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n-x\n+y\n```\n",
        f"`src/a.py`\n{BLOCK}\nOutput:\n\n```text\n1 passed\n```\n",
        # Windows line ends, a byte order mark, trailing blanks.
        f"\ufeff### `src/a.py`   \n\n{BLOCK}".replace("\n", "\r\n"),
        # A rule line between sections.
        f"Done.\n\n---\n\n### `src/a.py`\n{BLOCK}\n---\n\nThat is all.\n",
        # A quotation mark style of names.
        f'Create file "src/a.py":\n{BLOCK}',
    ],
    ids=range(12),
)
def test_what_stands_around_a_file_does_not_disturb_it(reply: str) -> None:
    assert files(reply) == {"src/a.py": A}


@pytest.mark.parametrize(
    "reply",
    [
        f"### src/a.py\n{BLOCK}\n### tests/test_a.py\n```python\n{T}```\n",
        f"**src/a.py**\n\n{BLOCK}\n**tests/test_a.py**\n\n```python\n{T}```\n",
        f"src/a.py\n{BLOCK}\ntests/test_a.py\n```python\n{T}```\n",
        f"```python src/a.py\n{A}```\n\n```python tests/test_a.py\n{T}```\n",
        (
            "1. Create `src/a.py`:\n\n   ```python\n   def a() -> int:\n       return 1\n   ```\n\n"
            f"2. **tests/test_a.py**\n\n```python\n{T}```\n"
        ),
        f"--- file: src/a.py ---\n{A}\n--- file: tests/test_a.py ---\n{T}",
        f"cat > src/a.py <<'EOF'\n{A}EOF\n\ncat > tests/test_a.py <<'EOF'\n{T}EOF\n",
        f"## Implementation\n\n`src/a.py`:\n\n{BLOCK}\n## Tests\n\n`tests/test_a.py`:\n\n```python\n{T}```\n",
    ],
    ids=range(8),
)
def test_two_files_are_two_files_in_every_style(reply: str) -> None:
    assert files(reply) == {"src/a.py": A, "tests/test_a.py": T}


#: What must not be taken for a whole file, or would leave a part of the change out, and words of the reason.
REFUSED = {
    "search_replace": ("src/a.py\n```python\n<<<<<<< SEARCH\nx = 1\n=======\nx = 2\n>>>>>>> REPLACE\n```\n", "whole file"),
    "apply_patch": (
        "Update file `src/a.py`:\n```\n*** Begin Patch\n*** Update File: src/a.py\n@@\n-x\n+y\n*** End Patch\n```\n",
        "whole file",
    ),
    "apply_patch_beside": (
        f"### src/b.py\n{BLOCK}\nThen:\n\n```\n*** Begin Patch\n*** Update File: src/a.py\n@@\n-x\n+y\n*** End Patch\n```\n",
        "whole file",
    ),
    "diff_of_another_file": (
        f"### src/b.py\n{BLOCK}\nAnd:\n\n```diff\n--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n-x\n+y\n```\n",
        "whole file",
    ),
    "unified_diff_in_python": (
        "**src/a.py**\n```python\n--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n-x\n+y\n```\n",
        "whole file",
    ),
    "rest_unchanged": (f"### src/a.py\n```python\n{A}# rest of the code remains unchanged\n```\n", "leaves out"),
    "rest_of_file": (f"### src/a.py\n```python\n{A}# (rest of the file stays the same)\n```\n", "leaves out"),
    "existing_code": (f"### src/a.js\n```js\n// existing code here\n{A}```\n", "leaves out"),
    "previous_code": (f"### src/a.js\n```js\n// [previous code remains the same]\n{A}```\n", "leaves out"),
    "other_methods": (f"### src/a.py\n```python\n{A}    # ... other methods ...\n```\n", "leaves out"),
    "cut_off": (f"### src/a.py\n```python\n{A}", "never closed"),
    "reasoning_cut_off": ("<think>\nFirst I would create `src/a.py`:\n```python\nx\n```\n", "not whole"),
    "line_reference": ("```12:15:src/a.py\nx = 1\n```\n", "part"),
    "two_infos": (f"### src/b.py\n```python src/a.py\n{A}```\n", "two names"),
    "changes_to": (f"### src/b.py\n{BLOCK}\n### Changes to `src/a.py`\n```python\nx = 1\n```\n", "one whole file"),
    "in_this_file": (f"### src/b.py\n{BLOCK}\n**In `src/a.py`, add:**\n```python\nx = 1\n```\n", "one whole file"),
    "prose": ("I would rename `parse` to `read` in `src/a.py` and adjust the callers.\n", "holds no file"),
    "json_files": ('{"files": [{"path": "src/a.py", "content": "x = 1"}]}\n', "holds no file"),
    "refusal": ("I'm sorry, but I can't help with that.\n", "holds no file"),
    "question": ("Should I also update the tests? Please confirm first.\n", "holds no file"),
}


@pytest.mark.parametrize("style", REFUSED)
def test_what_is_no_whole_file_is_refused(style: str) -> None:
    reply, words = REFUSED[style]
    with pytest.raises(ExtractionError, match=words):
        extract(reply.encode())


@pytest.mark.parametrize(
    "reply",
    [
        f"### Usage\n\n```python\nfrom src.a import a\n```\n\n### src/a.py\n{BLOCK}",
        f"Run `python -m pytest` first.\n\n```bash\npython -m pytest\n```\n\n### src/a.py\n{BLOCK}",
        f"## Overview of Node.js\n\n```js\nconsole.log(1)\n```\n\n### src/a.py\n{BLOCK}",
        f"Version 2.0\n```text\nnotes\n```\n\n### src/a.py\n{BLOCK}",
        f"Example.\n```json\n{{}}\n```\n\n### src/a.py\n{BLOCK}",
    ],
    ids=range(5),
)
def test_words_that_name_no_file_make_a_snippet(reply: str) -> None:
    assert files(reply) == {"src/a.py": A}


def test_a_comment_about_existing_things_is_code() -> None:
    body = "# existing code paths call this twice\n# the rest of the world is faster\nx = 1\n"
    assert files(f"### src/a.py\n```python\n{body}```\n") == {"src/a.py": body}
