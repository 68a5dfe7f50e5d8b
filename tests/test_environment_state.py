"""What counts as a change of an environment, and what every use of it brings about."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gatewright.environment_state import refuse_changed, see_environment
from gatewright.errors import ConfigurationError, DeniedError

PACKAGES = "lib/python3.12/site-packages"


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    prefix = tmp_path / "env"
    (prefix / "bin").mkdir(parents=True)
    (prefix / PACKAGES / "tool" / "__pycache__").mkdir(parents=True)
    (prefix / PACKAGES / "tool" / "__init__.py").write_text("one")
    (prefix / "bin" / "tool").symlink_to("../lib")
    return prefix


def rewritten_with_its_time_kept(prefix: Path) -> None:
    place = prefix / PACKAGES / "tool" / "__init__.py"
    facts = place.stat()
    (place.parent / "new").write_text("two")
    (place.parent / "new").rename(place)
    os.utime(place, ns=(facts.st_atime_ns, facts.st_mtime_ns))


CHANGES: dict[str, Callable[[Path], object]] = {
    "new file": lambda prefix: (prefix / PACKAGES / "sitecustomize.py").touch(),
    "new path file": lambda prefix: (prefix / PACKAGES / "x.pth").touch(),
    "bytecode without source": lambda prefix: (prefix / PACKAGES / "x.pyc").touch(),
    "new folder": lambda prefix: (prefix / PACKAGES / "empty").mkdir(),
    "other content": lambda prefix: (prefix / PACKAGES / "tool" / "__init__.py").write_text("other"),
    "exchanged file": rewritten_with_its_time_kept,
    "gone": lambda prefix: (prefix / PACKAGES / "tool" / "__init__.py").unlink(),
    "other rights": lambda prefix: (prefix / PACKAGES / "tool" / "__init__.py").chmod(0o777),
    "new link": lambda prefix: (prefix / "bin" / "python").symlink_to("/usr/bin/python3"),
    "file for a folder": lambda prefix: (prefix / "bin").rename(prefix / "bin2"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_change_of_an_environment_is_noticed(prefix: Path, change: str) -> None:
    seen = see_environment(prefix)
    CHANGES[change](prefix)
    with pytest.raises(DeniedError, match=str(prefix)) as caught:
        refuse_changed(seen)
    assert caught.value.reason == "environment_changed"


def test_link_that_leads_elsewhere_is_a_change(prefix: Path) -> None:
    seen = see_environment(prefix)
    (prefix / "bin" / "tool").unlink()
    (prefix / "bin" / "tool").symlink_to("../bin")
    with pytest.raises(DeniedError, match="bin/tool"):
        refuse_changed(seen)


def test_use_of_an_environment_is_no_change(prefix: Path) -> None:
    seen = see_environment(prefix)
    (prefix / PACKAGES / "tool" / "__pycache__" / "__init__.cpython-312.pyc").touch()
    (prefix / PACKAGES / "__pycache__").mkdir()
    (prefix / PACKAGES / "tool" / "__init__.py").read_text()
    os.link(prefix / PACKAGES / "tool" / "__init__.py", prefix.parent / "a tool that shares files by hard links")
    refuse_changed(seen)
    # The very same comparison sees a byte that was written.
    (prefix / PACKAGES / "tool" / "__init__.py").write_text("changed = True\n")
    with pytest.raises(DeniedError):
        refuse_changed(seen)


def test_name_that_is_no_text_is_seen_like_any_other(prefix: Path) -> None:
    name = os.fsencode(prefix / "bin") + b"/caf\xe9\n"
    before = see_environment(prefix)
    Path(os.fsdecode(name)).touch()
    os.symlink(b"\xff", os.fsencode(prefix / "bin" / "odd"))  # noqa: PTH211 - a place in bytes
    after = see_environment(prefix)
    assert before is not None
    assert after is not None
    assert before.document().files_sha256 != after.document().files_sha256
    with pytest.raises(DeniedError, match="caf"):
        refuse_changed(before)
    refuse_changed(after)


def test_state_is_the_same_through_a_link_and_another_in_another_place(prefix: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(prefix)
    states = [see_environment(place) for place in (prefix, tmp_path / "link", prefix / "lib")]
    first, linked, other = (state.document() for state in states if state is not None)
    assert (first.place_sha256, first.files_sha256) == (linked.place_sha256, linked.files_sha256)
    assert first.place_sha256 != other.place_sha256


def test_system_and_no_environment_are_not_watched() -> None:
    assert see_environment(None) is None
    assert see_environment(Path("/usr/local")) is None
    refuse_changed(None)


def test_environment_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="gone"):
        see_environment(tmp_path / "gone")
