"""Personas and rules: built in, replaced from a folder, read again when a file changes, and never silently an old one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gatewright.prompts.library import MAX_BYTES, ROLE_IDS, PromptLibrary, PromptsError, digest


def touch_later(file: Path) -> None:
    """A file system may not see two writes in one tick."""
    stamp = file.stat().st_mtime_ns + 1_000_000_000
    os.utime(file, ns=(stamp, stamp))


@pytest.mark.parametrize("role", ROLE_IDS)
def test_every_role_has_a_built_in_prompt_of_persona_rules_and_form(role: str) -> None:
    made = PromptLibrary().compose(role, "json")  # type: ignore[arg-type]
    assert list(made.digests) == ["persona", "defaults", "reply.json"]
    assert "Working rules" in made.text
    assert made.text.index("You are ") < made.text.index("Working rules") < made.text.index("One JSON document")


def test_the_forms_describe_files_and_forbid_the_network() -> None:
    library = PromptLibrary()
    files, workspace = library.compose("worker", "files"), library.compose("worker", "workspace")
    assert "Create file `src/lib.rs`:" in files.text
    assert "Uploads, pushes and publishing are prohibited" in files.text
    assert "Uploads, pushes and publishing are prohibited" in workspace.text
    assert "Create file" not in workspace.text


def test_a_folder_replaces_a_persona_and_leaves_the_others(tmp_path: Path) -> None:
    (tmp_path / "ours.yaml").write_text("pm:\n  persona: |\n    You are our pm.\n")
    made = PromptLibrary(tmp_path).compose("pm", "json")
    assert made.text.startswith("You are our pm.\n\n# Working rules")
    assert made.digests["persona"] == digest("You are our pm.\n")
    assert PromptLibrary(tmp_path).compose("worker", "files") == PromptLibrary().compose("worker", "files")


def test_a_changed_file_counts_without_a_new_start(tmp_path: Path) -> None:
    rules = tmp_path / "defaults.md"
    rules.write_text("Rule one.\n")
    library = PromptLibrary(tmp_path)
    before = library.compose("reviewer", "json")
    rules.write_text("Rule two.\n")
    touch_later(rules)
    after = library.compose("reviewer", "json")
    assert "Rule one." in before.text
    assert "Rule two." in after.text
    assert before.digests["defaults"] != after.digests["defaults"]
    rules.unlink()
    assert library.compose("reviewer", "json") == PromptLibrary().compose("reviewer", "json")


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"a.yaml": "pm: [1"}, "is not YAML"),
        ({"a.yaml": "- pm"}, "must hold roles by id"),
        ({"a.yaml": "boss:\n  persona: x\n"}, "there is no role 'boss'"),
        ({"a.yaml": "pm:\n  persona: ''\n"}, "pm.persona"),
        ({"a.yaml": "pm:\n  persona: x\n  sandbox: none\n"}, "pm.sandbox"),
        ({"a.yaml": "pm: {persona: x}", "b.yml": "pm: {persona: y}"}, "stands in another file"),
        ({"defaults.md": "a", "defaults.txt": "b"}, "keep one of them"),
        ({"defaults.md": "x" * (MAX_BYTES + 1)}, "more than"),
        ({"a.yaml": "pm: !!python/object/apply:os.getcwd []"}, "is not YAML"),
    ],
)
def test_an_invalid_folder_is_refused_by_file_name(files: dict[str, str], words: str, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(PromptsError, match=words) as refusal:
        PromptLibrary(tmp_path).compose("pm", "json")
    assert str(tmp_path) in refusal.value.message


def test_a_file_that_breaks_later_is_not_answered_with_the_old_prompt(tmp_path: Path) -> None:
    roles = tmp_path / "roles.yaml"
    roles.write_text("pm: {persona: fine}")
    library = PromptLibrary(tmp_path)
    library.compose("pm", "json")
    roles.write_text("pm: {persona: ")
    touch_later(roles)
    for _ in range(2):
        with pytest.raises(PromptsError):
            library.compose("pm", "json")


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PromptsError, match="cannot be read"):
        PromptLibrary(tmp_path / "none").compose("pm", "json")
