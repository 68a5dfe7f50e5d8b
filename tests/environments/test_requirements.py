"""What a requirement file may ask for: packages of the registries that the user's pip knows, by name."""

from __future__ import annotations

import pytest

from gatewright.app.environments.errors import NotPreparedError
from gatewright.app.environments.requirements import Requirements, read_requirements
from tests.ecosystems.python.trees import Tree


async def read(text: str, **others: str) -> Requirements:
    asked = Requirements()
    await read_requirements(Tree({"requirements.txt": text, **others}), "requirements.txt", asked)
    return asked


async def test_names_versions_markers_and_digests_are_taken() -> None:
    text = "# words\na\nb-c[x,y]>=1.0,!=1.2 # why\nd ~= 2 ; python_version < '3.9'\n"
    text += "e==1.0 \\\n  --hash=sha256:00ff \\\n  --hash=sha256:11\n"
    asked = await read(text)
    assert [line.split()[0] for line in asked.lines] == ["a", "b-c[x,y]>=1.0,!=1.2", "d", "e==1.0"]
    assert asked.hashed


async def test_what_a_file_includes_is_read_from_the_tree_relative_to_it() -> None:
    asked = Requirements()
    tree = Tree({"reqs/dev.txt": "-r base.txt\n-c ../limits.txt\nx", "reqs/base.txt": "y\n-r dev.txt", "limits.txt": "z<2"})
    await read_requirements(tree, "reqs/dev.txt", asked)
    assert (asked.lines, asked.constraints) == (["y", "x"], ["z<2"])


async def test_the_project_itself_is_passed_over() -> None:
    assert (await read("-e .\n-e .[test]\n.\n./\n--editable=.\n../\nx")).lines == ["x"]


@pytest.mark.parametrize(
    "line",
    [
        "--index-url https://registry.example",
        "-i https://registry.example",
        "--extra-index-url=x",
        "-f /tmp",
        "--trusted-host x",
    ],
)
async def test_a_registry_named_in_a_file_is_ignored_and_reported(line: str) -> None:
    asked = await read(f"{line}\nx")
    assert asked.lines == ["x"]
    assert "line 1 names a registry" in asked.notes[0]


@pytest.mark.parametrize(
    "line",
    [
        "x @ https://elsewhere.example/x.whl",
        "https://elsewhere.example/x.whl",
        "git+https://elsewhere.example/x",
        "-e git+https://elsewhere.example/x#egg=x",
        "/etc/passwd",
        "-r /etc/passwd",
        "-r ../outside.txt",
        "-r https://elsewhere.example/r.txt",
        "--install-option=--prefix=/",
        "x --global-option=y",
        "x; python_version > '3' @ https://elsewhere.example",
        "x\x00y",
    ],
)
async def test_what_would_be_fetched_from_elsewhere_is_refused_with_its_place(line: str) -> None:
    with pytest.raises(NotPreparedError, match=r"requirements\.txt line 2|is not a file of the repository"):
        await read(f"a\n{line}\n")
