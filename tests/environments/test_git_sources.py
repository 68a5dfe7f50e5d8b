"""Packages from git repositories: by a whole commit, from a host that the operator permits, through the egress gateway."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from gatewright.app.environments.errors import NotPreparedError
from gatewright.app.environments.git_sources import GitSource, npm_git_source
from gatewright.app.environments.plan import Installer
from gatewright.app.environments.prepare import prepare_environments
from gatewright.egress.policy import EgressPolicy, EgressSource
from gatewright.egress.record import EgressRecord, parse_egress_log
from gatewright.environment_inventory.reading import inventory_of
from gatewright.sandbox.environments import EGRESS_LOG, Environments, ShownFolder
from tests.ecosystems.python.trees import Tree
from tests.ecosystems.test_rust import needs_cargo
from tests.environments.registries import NpmRegistry, crate, served
from tests.environments.test_node import needs_npm, npm_for
from tests.environments.test_pull import left_over
from tests.environments.test_rust import cargo_for
from tests.environments.wheels import index_of, make_wheel, pip_from
from tests.git.access.servers import GitServer, git_server, make_certificate
from tests.git.repositories import Repository
from tests.sandbox.places import Folder, Run

CRATE = {
    "Cargo.toml": '[package]\nname = "led"\nversion = "0.3.0"\nedition = "2021"\n',
    "src/lib.rs": 'pub fn word() -> &\'static str { "led" }\n',
}
BACKEND = """
import os, zipfile
def build_wheel(folder, settings=None, metadata=None):
    with zipfile.ZipFile(os.path.join(folder, "led-0.3-py3-none-any.whl"), "w") as wheel:
        wheel.write("led.py")
        wheel.writestr("led-0.3.dist-info/METADATA", "Metadata-Version: 2.1\\nName: led\\nVersion: 0.3\\n")
        wheel.writestr("led-0.3.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("led-0.3.dist-info/RECORD", "")
    return "led-0.3-py3-none-any.whl"
"""
PACKAGE = {
    "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    '[project]\nname = "led"\nversion = "0.3"\n',
    "backend.py": BACKEND,
    "led.py": "WORD = 'led'\n",
}

#: npm would install, for the script, what the repository needs for its development.
NODE = {
    "package.json": json.dumps(
        {"name": "led", "version": "0.3.0", "scripts": {"build": "exit 1"}, "devDependencies": {"absent": "1"}}
    ),
    "index.js": "exports.word = 'led';\n",
}


@dataclass
class Forge:
    """A git server with one repository, of which ``commit`` is not the newest."""

    server: GitServer
    commit: str

    @property
    def url(self) -> str:
        return self.server.url("led.git")

    def policy(self, index: str, **fields: object) -> EgressPolicy:
        """What an operator permits: the user's index, and this server."""
        own = EgressSource(name="index", hosts=(urlsplit(index).netloc,), private=True, http=True)
        git = EgressSource(name="git", hosts=(urlsplit(self.url).netloc,), ecosystem="git", private=True)
        return EgressPolicy(version="1", sources=(own, git.model_copy(update=fields)))


@pytest.fixture
def forge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Forge]:
    source = Repository(tmp_path / "led", tmp_path / "git-home")
    source.path.mkdir()
    source.git("init", "--quiet", "--template=", "--initial-branch=main")
    commit = source.commit({**{path: text.encode() for path, text in (CRATE | PACKAGE | NODE).items()}})
    source.commit({"led.py": b"WORD = 'newer'\n", "src/lib.rs": b'compile_error!("newer");\n'})
    subprocess.run(["git", "clone", "--quiet", "--bare", source.path, tmp_path / "served/led.git"], check=True)
    for setting in ("uploadpack.allowAnySHA1InWant", "uploadpack.allowFilter"):
        subprocess.run(["git", "-C", tmp_path / "served/led.git", "config", setting, "true"], check=True)
    certificate = make_certificate(tmp_path / "certificate")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with git_server(tmp_path / "served", certificate) as server:
        yield Forge(server, commit)


def logged(prefix: Path) -> list[EgressRecord]:
    """The requests to the git server, and to no index."""
    return [each for each in parse_egress_log((prefix / EGRESS_LOG).read_bytes()) if ".git/" in each.path]


@needs_cargo
async def test_a_locked_crate_of_a_repository_is_vendored(tmp_path: Path, forge: Forge, place: Folder, run: Run) -> None:
    manifest = '[package]\nname = "small"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\nneeded = "1"\n'
    manifest += f'led = {{ git = "{forge.url}", rev = "{forge.commit}" }}\n'
    test = '#[test]\nfn says() { assert_eq!(led::word(), "led"); }\n'
    pages: dict[str, bytes] = {}
    with served(pages) as address:
        pages.update(crate("needed", "", address))
        user = cargo_for(tmp_path, address)
        project = tmp_path / "project"
        (project / "src").mkdir(parents=True)
        (project / "Cargo.toml").write_text(manifest)
        (project / "src/lib.rs").write_text(test)
        own = {**user.variables, "CARGO_NET_GIT_FETCH_WITH_CLI": "true", "GIT_SSL_CAINFO": str(forge.server.authority)}
        subprocess.run(["cargo", "generate-lockfile"], cwd=project, env=own, check=True, capture_output=True)
        files = {"Cargo.toml": manifest, "Cargo.lock": (project / "Cargo.lock").read_text(), "src/lib.rs": test}
        installer = replace(user, egress=forge.policy(address))
        forge.server.seen.clear()
        made = await prepare_environments(tmp_path / "home", Tree(files), ("cargo test",), installer, print)
        asked = len(forge.server.seen)
        again = await prepare_environments(tmp_path / "home", Tree(files), ("cargo test",), installer, print)
    assert again == made
    assert asked == len(forge.server.seen) > 0
    shutil.copytree(project, place.path, dirs_exist_ok=True)
    shown = Environments(tuple(ShownFolder(each) for each in made))
    (listed,) = (each for each in inventory_of(shown.watched).trees if each.ecosystem == "rust")
    assert [each.purl for each in listed.packages] == ["pkg:cargo/led@0.3.0", "pkg:cargo/needed@1.0.0"]
    assert (listed.unknown, listed.altered, listed.faults) == ((), (), ())
    done = await run("cargo", "test", "--locked", prefix=shown)
    assert b"test says ... ok" in done.stdout, done.stderr
    assert {(each.method, each.decision) for each in logged(made[0])} == {("GET", "allowed"), ("POST", "allowed")}


async def python_with(
    tmp_path: Path, forge: Forge, files: dict[str, str], *, builds: bool = True, policy: EgressPolicy | None = None
) -> Path:
    """Prepare an environment from ``files``, where ``REPOSITORY`` and ``COMMIT`` are replaced."""
    make_wheel(tmp_path / "wheels", "needed")
    with served(index_of(tmp_path / "wheels")) as address:
        installer = Installer(pip_from(address, tmp_path), source_builds=builds, egress=policy or forge.policy(address))
        named = {path: text.replace("REPOSITORY", forge.url).replace("COMMIT", forge.commit) for path, text in files.items()}
        (prefix,) = await prepare_environments(tmp_path / "home", Tree(named), ("python t.py",), installer, print)
    return prefix


LISTS = {
    "requirements": {"requirements.txt": "needed\nled @ git+REPOSITORY@COMMIT\n"},
    "an egg": {"requirements.txt": "needed\ngit+REPOSITORY@COMMIT#egg=led\n"},
    "a project": {"pyproject.toml": '[project]\nname = "own"\ndependencies = ["needed", "led @ git+REPOSITORY@COMMIT"]\n'},
    "poetry": {
        "poetry.lock": '[[package]]\nname = "led"\nversion = "0.3"\n[package.source]\ntype = "git"\nurl = "REPOSITORY"\n'
        'reference = "main"\nresolved_reference = "COMMIT"\n[[package]]\nname = "needed"\nversion = "1.0"\n'
    },
}


@pytest.mark.parametrize("files", LISTS.values(), ids=LISTS.keys())
async def test_a_python_package_of_a_repository_is_built(tmp_path: Path, forge: Forge, files: dict[str, str]) -> None:
    prefix = await python_with(tmp_path, forge, files)
    (module,) = prefix.glob("lib/python*/site-packages/led.py")
    assert module.read_text() == "WORD = 'led'\n"
    assert list(prefix.glob("lib/python*/site-packages/needed.py"))
    assert {each.decision for each in logged(prefix)} == {"allowed"}


async def test_a_repository_stands_beside_packages_with_digests(tmp_path: Path, forge: Forge) -> None:
    wheel = make_wheel(tmp_path / "wheels", "needed")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    lines = f"needed==1.0 --hash=sha256:{digest}\nled @ git+REPOSITORY@COMMIT\n"
    prefix = await python_with(tmp_path, forge, {"requirements.txt": lines})
    assert {each.name for each in prefix.glob("lib/python*/site-packages/*.py")} >= {"led.py", "needed.py"}


REFUSED = {
    "a branch": ("led @ git+REPOSITORY@main", "is not a package of a registry"),
    "a short commit": ("led @ git+REPOSITORY@0123456", "is not a package of a registry"),
    "plain http": ("led @ git+http://127.0.0.1/led.git@COMMIT", "is not a package of a registry"),
    "ssh": ("led @ git+ssh://git@127.0.0.1/led.git@COMMIT", "is not a package of a registry"),
    "another host": ("led @ git+https://example.com/led.git@COMMIT", "that no policy permits"),
    "a user in the address": ("led @ git+https://me:word@127.0.0.1/led.git@COMMIT", "is not a package of a registry"),
    "editable": ("-e git+REPOSITORY@COMMIT#egg=led", "is not a package of a registry"),
}


@pytest.mark.parametrize(("line", "words"), REFUSED.values(), ids=REFUSED.keys())
async def test_another_reference_to_a_repository_is_refused(tmp_path: Path, forge: Forge, line: str, words: str) -> None:
    with pytest.raises(NotPreparedError, match=words):
        await python_with(tmp_path, forge, {"requirements.txt": line})
    assert forge.server.seen == []


async def test_a_repository_needs_leave_to_build(tmp_path: Path, forge: Forge) -> None:
    with pytest.raises(NotPreparedError, match="GATEWRIGHT_SOURCE_BUILDS=true"):
        await python_with(tmp_path, forge, LISTS["requirements"], builds=False)
    assert forge.server.seen == []


async def test_a_repository_without_a_source_of_git_is_refused(tmp_path: Path, forge: Forge) -> None:
    with pytest.raises(NotPreparedError, match=r"ecosystem `git` in egress\.json"):
        await python_with(tmp_path, forge, LISTS["requirements"], policy=EgressPolicy(version="1"))


async def test_an_absent_commit_leaves_nothing_behind(tmp_path: Path, forge: Forge) -> None:
    with pytest.raises(NotPreparedError, match="python pip ended with 1"):
        await python_with(tmp_path, forge, {"requirements.txt": f"led @ git+REPOSITORY@{'1' * 40}"})
    assert left_over(tmp_path) == [".lock"]


BUILDS = {
    "a push": "['git', 'push', 'REPOSITORY', 'HEAD:refs/heads/new']",
    "another repository": "['git', 'clone', 'REPOSITORY'.replace('led.git', 'other.git'), '/tmp/other']",
}


@pytest.mark.parametrize("command", BUILDS.values(), ids=BUILDS.keys())
async def test_a_build_reaches_only_named_repositories(tmp_path: Path, forge: Forge, command: str) -> None:
    code = f"import subprocess\nsubprocess.run({command.replace('REPOSITORY', forge.url)}, check=False)\n{BACKEND}"
    source = Repository(tmp_path / "led", tmp_path / "git-home")
    commit = source.commit({"backend.py": code.encode()})
    source.git("push", "--quiet", str(tmp_path / "served/led.git"), "HEAD:refs/heads/hostile")
    prefix = await python_with(tmp_path, Forge(forge.server, commit), {"requirements.txt": "led @ git+REPOSITORY@COMMIT"})
    assert {each.reason for each in logged(prefix) if each.decision == "refused"} == {"egress_address_refused"}
    assert not [each for each in forge.server.seen if "receive-pack" in each.path or "other" in each.path]


async def node_with(
    tmp_path: Path, forge: Forge, *, spec: str = "", resolved: str = "", policy: EgressPolicy | None = None
) -> tuple[Path, int]:
    """Prepare a project whose lock has one package of a registry, and one of the repository; the requests of a second time."""
    registry = NpmRegistry()
    registry.add("needed", {"index.js": "exports.word = 'needed';\n"})
    led = spec or f"git+{forge.url}#{forge.commit}"
    top = {"name": "top", "version": "1.0.0", "dependencies": {"needed": "1.0.0", "led": led}}
    entry = {"version": "0.3.0", "resolved": resolved or led}
    lock = registry.lock(top, **{"node_modules/led": entry})
    tree, asked = Tree({"package.json": json.dumps(top), "package-lock.json": lock}), list[str]()
    with served(registry.pages, asked) as address:
        installer = replace(npm_for(tmp_path, address), egress=policy or forge.policy(address))
        (prefix,) = await prepare_environments(tmp_path / "home", tree, ("node t.js",), installer, print)
        before = len(asked) + len(forge.server.seen)
        await prepare_environments(tmp_path / "home", tree, ("node t.js",), installer, print)
    return prefix, len(asked) + len(forge.server.seen) - before


@needs_npm
async def test_a_locked_repository_of_npm_is_installed(tmp_path: Path, forge: Forge, place: Folder, run: Run) -> None:
    prefix, again = await node_with(tmp_path, forge)
    assert again == 0
    shown = Environments((ShownFolder(prefix),))
    done = await run("node", "-p", "require('needed').word + ' ' + require('led').word", prefix=shown)
    assert done.stdout == b"needed led\n", done.stderr
    (listed,) = inventory_of(shown.watched).trees
    assert [each.purl for each in listed.packages] == ["pkg:npm/led@0.3.0", "pkg:npm/needed@1.0.0"]
    assert (listed.unknown, listed.altered, listed.faults) == ((), (), ())
    assert {(each.method, each.decision) for each in logged(prefix)} == {("GET", "allowed"), ("POST", "allowed")}


@needs_npm
@pytest.mark.parametrize("script", ["prepare", "prepack"])
async def test_a_repository_that_a_script_makes_is_refused(tmp_path: Path, forge: Forge, script: str) -> None:
    source = Repository(tmp_path / "led", tmp_path / "git-home")
    manifest = {"name": "led", "version": "0.3.0", "scripts": {script: "touch made"}}
    commit = source.commit({"package.json": json.dumps(manifest).encode()})
    source.git("push", "--quiet", str(tmp_path / "served/led.git"), "HEAD:refs/heads/scripted")
    with pytest.raises(NotPreparedError, match=rf"led\.git is made by its script `{script}`, which does not run here"):
        await node_with(tmp_path, Forge(forge.server, commit))
    assert left_over(tmp_path) == [".lock"]


REFUSED_BY_NPM = {
    "a short commit": ("#0123456", "is no whole commit id"),
    "a branch": ("#main", "is no whole commit id"),
    "an absent commit": (f"#{'1' * 40}", "git fetch ended with 128"),
    "another repository": ("/../other.git#COMMIT", "git fetch ended with 128"),
}


@needs_npm
@pytest.mark.parametrize(("end", "words"), REFUSED_BY_NPM.values(), ids=REFUSED_BY_NPM.keys())
async def test_npm_gets_only_a_whole_commit_of_a_repository(tmp_path: Path, forge: Forge, end: str, words: str) -> None:
    resolved = f"git+{forge.url}{end}".replace("/led.git/..", "").replace("COMMIT", forge.commit)
    with pytest.raises(NotPreparedError, match=words):
        await node_with(tmp_path, forge, resolved=resolved, spec=resolved)


@needs_npm
async def test_a_repository_beside_the_locked_one_is_not_read(tmp_path: Path, forge: Forge) -> None:
    other = f"git+{forge.url.replace('led.git', 'other.git')}"
    with pytest.raises(NotPreparedError, match="asks for what is not a package of a registry"):
        await node_with(tmp_path, forge, spec=f"{other}#{forge.commit}", resolved=f"git+{forge.url}#{forge.commit}")
    assert not [each for each in forge.server.seen if "other" in each.path]


@needs_npm
async def test_npm_reads_no_repository_without_a_source_of_git(tmp_path: Path, forge: Forge) -> None:
    with pytest.raises(NotPreparedError, match=r"ecosystem `git` in egress\.json"):
        await node_with(tmp_path, forge, policy=EgressPolicy(version="1"))
    assert forge.server.seen == []


@pytest.mark.parametrize(
    "text",
    ["o/led#c", "github:o/led.git#c", "git+https://github.com/o/led.git#c", "git+ssh://git@github.com/o/led.git#c"],
)
def test_short_names_of_npm_are_repositories_over_https(text: str) -> None:
    assert npm_git_source(text) == GitSource("https://github.com/o/led.git", "c")


@pytest.mark.parametrize(
    "text", ["^1.0.0", "../led", "~/led", "file:led", "npm:@o/led", "git+file:///led", "git://a/led", None]
)
def test_other_references_of_npm_are_no_repositories(text: str | None) -> None:
    assert npm_git_source(text) is None
