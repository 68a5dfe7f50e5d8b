"""An image in the place of the host's system: its programs run behind the same walls, and nothing of the host is seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.contracts.vocabulary import EnvironmentProfile
from gatewright.errors import ConfigurationError, DeniedError
from gatewright.git.mirror import Mirrors
from gatewright.host_facts import surroundings
from gatewright.sandbox import SandboxLimits
from gatewright.sandbox.environments import Environments
from gatewright.sandbox.images import UNAVAILABLE, ImageRoot
from gatewright.sandbox.programs import not_found
from gatewright.sandbox.unconfined import Unconfined
from gatewright.tasks.inputs import EVERY, listed_environments, usable_environment
from tests.factories import make_contract
from tests.git.repositories import MakeRepository
from tests.sandbox.image_folders import IMAGE, make_image, write_record
from tests.sandbox.places import Folder, Run


@pytest.fixture
def image(tmp_path: Path) -> ImageRoot:
    return make_image(tmp_path / "environments")


def shown(image: ImageRoot) -> Environments:
    return Environments((), image)


async def test_commands_see_the_programs_of_the_image_and_none_of_the_host(run: Run, image: ImageRoot) -> None:
    done = await run("only-here", prefix=shown(image))
    assert (done.exit_code, done.stdout) == (0, b"from the image\n")
    assert (await run("git", "--version", prefix=shown(image))).exit_code == 127
    assert (
        not_found("git", shown(image)) == f"'git' was not found in the image {IMAGE} (looked at /usr/local/bin, /usr/bin, /bin)"
    )
    assert not_found("only-here", shown(image)) is None
    assert surroundings(prefix=shown(image)).image == IMAGE


async def test_the_walls_are_those_of_every_command(run: Run, image: ImageRoot) -> None:
    done = await run("sh", "-c", "echo > /usr/bin/mine; echo > /mine; echo > made && cat /proc/net/dev", prefix=shown(image))
    assert b"cannot create /usr/bin/mine" in done.stderr
    assert b"cannot create /mine" in done.stderr
    assert [line.split(b":")[0].strip() for line in done.stdout.splitlines()[2:]] == [b"lo"]
    status = (await run("cat", "/proc/self/status", prefix=shown(image))).stdout
    assert b"NoNewPrivs:\t1" in status
    assert b"CapEff:\t0000000000000000" in status
    loop = ("sh", "-c", "while :; do :; done")
    assert (await run(*loop, prefix=shown(image), limits=SandboxLimits(wall_seconds=0.5))).timed_out


async def test_variables_of_the_image_hold_but_for_what_is_fixed(run: Run, tmp_path: Path) -> None:
    image = make_image(tmp_path / "environments", PATH="/opt/tool/bin:relative:/bin", TOOL_HOME="/opt/tool", TZ="Mars/Olympus")
    done = await run("sh", "-c", 'echo "$PATH $TOOL_HOME $TZ"', prefix=shown(image))
    assert done.stdout == b"/opt/tool/bin:/bin /opt/tool UTC\n"


async def test_a_link_of_the_image_never_reaches_host_files(run: Run, image: ImageRoot, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("secret")
    (image.files / "opt").symlink_to(tmp_path / "secret")
    assert (await run("cat", "/opt/key", prefix=shown(image))).exit_code != 0
    (image.files / "etc").mkdir()
    (image.files / "etc" / "alternatives").symlink_to(tmp_path / "secret")
    with pytest.raises(ConfigurationError, match="which is the host's") as caught:
        await run("ls", prefix=shown(image))
    assert caught.value.reason == UNAVAILABLE


async def test_without_walls_no_command_is_run_in_the_place_of_an_image(image: ImageRoot, place: Folder) -> None:
    with pytest.raises(ConfigurationError) as caught:
        await Unconfined().run(("only-here",), workspace=place, prefix=shown(image), limits=SandboxLimits())
    assert caught.value.reason == UNAVAILABLE


@pytest.mark.parametrize("named", [f"other/name@sha256:{'0' * 64}", "example/tools:latest", f"x:1@sha256:{'ab' * 31}"])
def test_packed_images_and_tags_are_refused_with_a_remedy(image: ImageRoot, named: str) -> None:
    contract = make_contract(environment_profile=EnvironmentProfile(language="go", chosen_by="language", image=named))
    with pytest.raises(DeniedError, match=f"gatewright image {named}") as caught:
        listed_environments(contract, [image.folder.parent / EVERY])
    assert caught.value.reason == UNAVAILABLE


async def test_an_image_whose_files_were_changed_since_is_refused(
    image: ImageRoot, make_repository: MakeRepository, tmp_path: Path
) -> None:
    contract = make_contract(environment_profile=EnvironmentProfile(language="go", chosen_by="language", image=IMAGE))
    repository, listed = make_repository("project"), [image.folder.parent / EVERY]
    mirror = await Mirrors(tmp_path / "mirrors").open(str(repository.path))
    baseline = await mirror.resolve("HEAD")
    assert await usable_environment(contract, listed, mirror, baseline) == shown(image)
    (image.files / "usr" / "bin" / "only-here").write_text("#!/bin/sh\necho another\n")
    with pytest.raises(DeniedError, match="is not what was unpacked") as caught:
        await usable_environment(contract, listed, mirror, baseline)
    assert caught.value.reason == "environment_changed"
    write_record(image.folder)
    assert await usable_environment(contract, listed, mirror, baseline) is not None


def test_a_foreign_image_record_in_the_folder_is_ignored(image: ImageRoot) -> None:
    write_record(image.folder, f"example/tools@sha256:{'ef' * 32}")
    contract = make_contract(environment_profile=EnvironmentProfile(language="go", chosen_by="language", image=IMAGE))
    with pytest.raises(DeniedError):
        listed_environments(contract, [image.folder.parent / EVERY])
