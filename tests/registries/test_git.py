"""A lock of the real uv with a package of a git repository."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

from gatewright.app.environments.plan import Installer
from gatewright.app.environments.prepare import prepare_environments
from tests.ecosystems.python.trees import Tree
from tests.environments.registries import served
from tests.environments.test_git_sources import Forge, forge, logged
from tests.environments.wheels import index_of, make_wheel, pip_from
from tests.registries.servers import INSTALLATION

__all__ = ["forge"]

PROJECT = (
    '[project]\nname = "own"\nversion = "1"\nrequires-python = ">=3.11"\n'
    'dependencies = ["needed", "led @ git+{url}@{commit}"]\n'
)


async def test_a_repository_in_a_lock_of_uv_is_built(tmp_path: Path, forge: Forge) -> None:
    make_wheel(tmp_path / "wheels", "needed")
    project = tmp_path / "project"
    project.mkdir()
    (project / "pyproject.toml").write_text(PROJECT.format(url=forge.url, commit=forge.commit))
    with served(index_of(tmp_path / "wheels")) as address:
        user = Installer(pip_from(address, tmp_path), source_builds=True)
        own = {**user.variables, "PATH": f"{INSTALLATION}/python/bin:/usr/bin:/bin"}
        trust = {"GIT_SSL_CAINFO": str(forge.server.authority), "UV_CACHE_DIR": str(tmp_path / "cache")}
        words = [f"{INSTALLATION}/python/bin/uv", "lock", "--no-config", "--index-url", f"{address}/simple"]
        subprocess.run(words, cwd=project, env={**own, **trust}, check=True, capture_output=True)
        files = {name: (project / name).read_text() for name in ("pyproject.toml", "uv.lock")}
        installer = replace(user, variables=own, egress=forge.policy(address))
        (prefix,) = await prepare_environments(tmp_path / "home", Tree(files), ("python t.py",), installer, print)
    assert {each.name for each in prefix.glob("lib/python*/site-packages/*.py")} >= {"led.py", "needed.py"}
    assert {each.decision for each in logged(prefix)} == {"allowed"}
