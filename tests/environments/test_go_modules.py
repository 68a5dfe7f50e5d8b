"""``--env auto`` for Go: the modules of go.sum, found by an offline go; a repository that holds its modules needs no proxy."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from gatewright.app.environments.errors import NotPreparedError
from gatewright.app.environments.go_install import go_plans
from gatewright.app.environments.plan import Installer
from gatewright.app.environments.prepare import prepare_environments
from gatewright.environment_inventory.reading import inventory_of
from gatewright.sandbox.environments import Environments, ShownFolder
from tests.ecosystems.python.trees import Tree
from tests.ecosystems.test_go import TOOLCHAIN, needs_go
from tests.environments.registries import go_proxy
from tests.sandbox.places import Folder, Run

FILES = {
    "go.mod": "module example.org/small\n\ngo 1.19\n\nrequire example.org/needed v1.0.0\n",
    "small.go": 'package small\n\nimport "example.org/needed"\n\nfunc Word() string { return needed.Word() }\n',
    "small_test.go": (
        'package small\n\nimport "testing"\n\nfunc TestWord(t *testing.T) {\n\tif Word() != "needed" {\n\t\tt.Fatal()\n\t}\n}\n'
    ),
}


def go_for(folder: Path, proxy: str) -> Installer:
    """The user's own configuration of go: a proxy, and no data base of digests."""
    (folder / "user").mkdir(exist_ok=True)
    own = {"PATH": f"{TOOLCHAIN}/bin:/usr/bin:/bin", "HOME": str(folder / "user"), "GOPROXY": proxy, "GOSUMDB": "off"}
    return Installer(own)


def summed(folder: Path, installer: Installer) -> Tree:
    """The project with the digests that go notes."""
    project = folder / "project"
    project.mkdir()
    for path, text in FILES.items():
        (project / path).write_text(text)
    environment = {**installer.variables, "GOFLAGS": "-modcacherw -mod=mod"}
    subprocess.run(["go", "mod", "tidy"], cwd=project, env=environment, check=True, capture_output=True)
    return Tree({path: (project / path).read_text() for path in (*FILES, "go.sum")})


@pytest.mark.long
@needs_go
async def test_modules_of_go_sum_are_found_without_a_network(tmp_path: Path, place: Folder, run: Run) -> None:
    proxy = go_proxy(tmp_path / "proxy", "example.org/needed", 'package needed\n\nfunc Word() string { return "needed" }\n')
    installer = go_for(tmp_path, proxy)
    tree = summed(tmp_path, installer)
    made = await prepare_environments(tmp_path / "home", tree, ("go test ./...",), installer, print)
    shutil.copytree(tmp_path / "project", place.path, dirs_exist_ok=True)
    shown = Environments(tuple(ShownFolder(each) for each in made))
    (listed,) = (each for each in inventory_of(shown.watched).trees if each.ecosystem == "go")
    assert [each.purl for each in listed.packages] == ["pkg:golang/example.org/needed@v1.0.0"]
    assert (listed.unknown, listed.altered, listed.faults) == ((), (), ())
    done = await run("go", "test", "./...", prefix=shown)
    assert b"ok  \texample.org/small" in done.stdout, done.stdout + done.stderr


@needs_go
async def test_a_module_that_differs_from_go_sum_is_refused(tmp_path: Path) -> None:
    word = 'package needed\n\nfunc Word() string { return "%s" }\n'
    tree = summed(tmp_path, go_for(tmp_path, go_proxy(tmp_path / "proxy", "example.org/needed", word % "needed")))
    forged = go_proxy(tmp_path / "forged", "example.org/needed", word % "forged")
    with pytest.raises(NotPreparedError, match=r"(?i)checksum mismatch"):
        await prepare_environments(tmp_path / "home", tree, ("go test",), go_for(tmp_path, forged), print)
    assert [each.suffix for each in (tmp_path / "home/environments").iterdir()] == [".lock"]


@needs_go
async def test_without_a_proxy_no_host_of_a_module_is_contacted(tmp_path: Path) -> None:
    """``direct``, which is go's own default, has git ask any host."""
    proxy = go_proxy(tmp_path / "proxy", "example.org/needed", 'package needed\n\nfunc Word() string { return "needed" }\n')
    tree = summed(tmp_path, go_for(tmp_path, proxy))
    user = go_for(tmp_path, "").variables
    (tmp_path / "bin").mkdir()
    git = tmp_path / "bin/git"
    git.write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\nexit 1\n")
    git.chmod(0o755)
    (tmp_path / "goenv").write_text("GOPROXY=direct\n")
    own = {**user, "GOENV": str(tmp_path / "goenv"), "PATH": f"{tmp_path}/bin:{user['PATH']}"}
    own.pop("GOPROXY")
    with pytest.raises(NotPreparedError, match="go mod vendor"):
        await prepare_environments(tmp_path / "home", tree, ("go test",), Installer(own), print)
    assert not (tmp_path / "asked").exists()


@pytest.mark.parametrize("files", [{"go.mod": ""}, {"go.mod": "", "go.sum": "", "vendor/modules.txt": ""}])
async def test_modules_that_the_repository_has_need_no_proxy(files: dict[str, str]) -> None:
    assert await go_plans(Tree(files), (), Installer({"PATH": ""})) == ()
