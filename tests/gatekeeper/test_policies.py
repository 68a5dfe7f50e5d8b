"""Policy files: a broken one stops the gatekeeper, and says where."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gatewright.errors import ConfigurationError
from gatewright.resources import policy_directory
from services.gatekeeper.policies import FILES, Policies, load


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(policy_directory(), tmp_path / "policies"))


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("content", [None, b"", b"{", b"[]", b'{"version": "1"}', b"\xff\xfe"])
def test_a_broken_policy_file_is_refused_by_name(folder: Path, name: str, content: bytes | None) -> None:
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content)
    with pytest.raises(ConfigurationError, match=name):
        load(folder)


def test_an_unknown_field_is_refused(folder: Path) -> None:
    path = folder / "command_allowlist.json"
    path.write_text(path.read_text().replace('"uses"', '"use"', 1))
    with pytest.raises(ConfigurationError, match="command_allowlist"):
        load(folder)


def test_every_change_of_a_policy_changes_the_digest(folder: Path, policies: Policies) -> None:
    digests = {policies.sha256}
    for name in FILES:
        (folder / name).write_bytes((folder / name).read_bytes() + b"\n")
        digests.add(load(folder).sha256)
    assert len(digests) == len(FILES) + 1


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (b".env", "sacred"),
        (b"config/.ENV", "sacred"),
        (b".github/workflows/ci.yml", "sacred"),
        (b"deep/.git/config", "sacred"),
        (b"server.PEM", "sacred"),
        (b"tests/test_a.py", "protected"),
        (b"src/pkg/test_a.py", "protected"),
        (b"pyproject.toml", "dependencies"),
        (b"app/migrations/0001.py", "migrations"),
        (b"src/app.py", None),
        (b"src/environment.py", None),
        (b"\xff\xfe/.env", "sacred"),
    ],
)
def test_paths_fall_into_their_class(path: bytes, kind: str | None, policies: Policies) -> None:
    found = policies.path_class(path)
    assert (found.name if found else None) == kind
