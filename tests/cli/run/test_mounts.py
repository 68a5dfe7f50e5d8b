"""``--mount`` and ``--env``, several times: folders that commands need, and that git does not have."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gatewright.app.cli.run.request import prepare
from gatewright.contracts.vocabulary import Environment, FurtherEnvironment
from gatewright.errors import MalformedError
from gatewright.order_form.run_options import RunOptions
from gatewright.order_form.words import command_line
from tests.cli.conftest import MakeRepository


def options(*mount: str, env: tuple[Path, ...] = ()) -> RunOptions:
    return RunOptions(request="do it", allow=("src",), commands=("true",), tests=("true",), mount=mount, env=env)


@pytest.fixture
def checkout(make_repository: MakeRepository) -> Path:
    """A repository with one commit, and installed packages that are not in it."""
    top = make_repository("r")
    (top / "node_modules/needed").mkdir(parents=True)
    (top / "front/node_modules").mkdir(parents=True)
    return top


def refusal(checkout: Path, *mount: str) -> str:
    with pytest.raises(MalformedError) as refused:
        prepare(options(*mount), checkout)
    (fault,) = refused.value.faults
    return fault.code


def test_packages_of_the_checkout_are_shown_in_their_own_place(checkout: Path) -> None:
    for given in ("node_modules", "./node_modules", str(checkout / "node_modules"), "node_modules/"):
        asked = prepare(options(given), checkout).request.environment
        assert asked == Environment(prefix=str(checkout / "node_modules"), at="node_modules")


def test_environments_and_packages_are_asked_for_in_their_order(checkout: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name / "bin").mkdir(parents=True)
    env = (tmp_path / "one", tmp_path / "two")
    asked = prepare(options("front/node_modules", "node_modules=../one", env=env), checkout).request.environment
    assert asked == Environment(
        prefix=str(tmp_path / "one"),
        others=(
            FurtherEnvironment(prefix=str(tmp_path / "two")),
            FurtherEnvironment(prefix=str(checkout / "front/node_modules"), at="front/node_modules"),
            FurtherEnvironment(prefix=str(tmp_path / "one"), at="node_modules"),
        ),
    )


def test_mounts_are_named_again_in_the_command_to_retry_with() -> None:
    words = command_line(options("node_modules", "a=b"))
    assert [words[at + 1] for at, word in enumerate(words) if word == "--mount"] == ["node_modules", "a=b"]


def test_packages_that_git_tracks_are_refused(checkout: Path) -> None:
    (checkout / "node_modules/needed/index.js").write_text("x")
    subprocess.run(("git", "add", "-f", "node_modules"), cwd=checkout, check=True)
    assert refusal(checkout, "node_modules") == "environment_tracked"
    assert refusal(checkout, "other=node_modules/needed") == "environment_tracked"
    assert refusal(checkout, "other=.") == "environment_tracked"


def test_a_link_out_of_the_checkout_has_to_be_named(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (checkout / "linked").symlink_to("../elsewhere")
    assert refusal(checkout, "linked") == "outside"
    asked = prepare(options("linked=../elsewhere"), checkout).request.environment
    assert asked == Environment(prefix=str(tmp_path / "elsewhere"), at="linked")


def test_what_is_no_folder_or_no_place_is_refused(checkout: Path) -> None:
    assert refusal(checkout, "absent") == "not_found"
    assert refusal(checkout, "a.txt") == "not_found"
    assert refusal(checkout, str(checkout.parent / "elsewhere")) == "outside"
    assert refusal(checkout, "../elsewhere=node_modules") == "configuration_invalid"
    assert refusal(checkout, ".git/hooks=node_modules") == "configuration_invalid"
    assert refusal(checkout, ".=node_modules") == "configuration_invalid"
