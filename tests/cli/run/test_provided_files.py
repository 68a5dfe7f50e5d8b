"""``--provide``: files of the checkout that commands need and git does not have."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.app.cli.run.request import prepare
from gatewright.errors import MalformedError
from gatewright.order_form.run_options import RunOptions
from gatewright.order_form.words import command_line
from gatewright.tasks.provided import MOST_BYTES
from tests.cli.conftest import MakeRepository


def options(*provide: str) -> RunOptions:
    return RunOptions(request="do it", allow=("src",), commands=("true",), tests=("true",), provide=provide)


@pytest.fixture
def checkout(make_repository: MakeRepository) -> Path:
    """A repository with one commit, and a generated file that is not in it."""
    top = make_repository("r")
    (top / "src").mkdir(exist_ok=True)
    (top / "src" / "_version.py").write_text("v = 1\n")
    return top


def refusal(checkout: Path, path: str) -> str:
    with pytest.raises(MalformedError) as refused:
        prepare(options(path), checkout)
    (fault,) = refused.value.faults
    return fault.code


def test_a_provided_file_travels_under_its_path(checkout: Path) -> None:
    for given in ("src/_version.py", "./src/_version.py", str(checkout / "src/_version.py"), "src//./_version.py"):
        assert prepare(options(given), checkout).attachments == (("provide:src/_version.py", b"v = 1\n"),)


def test_a_provided_file_is_named_again_in_the_command_to_retry_with() -> None:
    words = command_line(options("src/_version.py"))
    assert words[words.index("--provide") + 1] == "src/_version.py"


def test_a_file_outside_of_the_repository_is_not_provided(checkout: Path) -> None:
    (checkout.parent / "secret").write_text("secret")
    (checkout / "way").symlink_to("..")
    (checkout / "link").symlink_to("../secret")
    assert refusal(checkout, "../secret") == "unsafe_path"
    assert refusal(checkout, "way/secret") == "outside"
    assert refusal(checkout, "link") == "outside"
    assert refusal(checkout, str(checkout.parent / "secret")) == "outside"
    assert refusal(checkout, ".git/config") == "unsafe_path"


def test_what_is_no_file_absent_or_too_large_is_not_provided(checkout: Path) -> None:
    (checkout / "large").write_bytes(b"x" * (MOST_BYTES + 1))
    assert refusal(checkout, "absent") == "unreadable"
    assert refusal(checkout, "src") in {"path_unusable", "unreadable"}
    assert refusal(checkout, "large") == "provided_too_large"


def test_a_file_that_git_tracks_is_part_of_the_run_already(checkout: Path, make_repository: MakeRepository) -> None:
    tracked = next(path for path in checkout.iterdir() if path.is_file())
    assert refusal(checkout, tracked.name) == "place_not_free"
