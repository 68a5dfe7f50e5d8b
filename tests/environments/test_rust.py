"""``--env auto`` for Rust: the crates of the lock, found by an offline cargo; where none is needed no registry is asked."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from gatewright.app.environments.errors import NotPreparedError
from gatewright.app.environments.plan import Installer
from gatewright.app.environments.prepare import prepare_environments
from gatewright.app.environments.rust_install import rust_plans
from gatewright.environment_inventory.reading import inventory_of
from gatewright.sandbox.environments import Environments, ShownFolder
from tests.ecosystems.python.trees import Tree
from tests.ecosystems.test_rust import TOOLCHAIN, needs_cargo
from tests.environments.registries import crate, served
from tests.sandbox.places import Folder, Run

MANIFEST = '[package]\nname = "small"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\nneeded = "1"\n'
SOURCE = 'pub fn word() -> &\'static str { needed::word() }\n#[test]\nfn says() { assert_eq!(word(), "needed"); }\n'
LOCKED = 'version = 3\n[[package]]\nname = "{name}"\nversion = "1.0.0"\nsource = "{source}"\n'
CRATES_IO = "registry+https://github.com/rust-lang/crates.io-index"


def cargo_for(folder: Path, address: str) -> Installer:
    """The user's own configuration of cargo: a mirror of crates.io."""
    home = folder / "user"
    home.mkdir(exist_ok=True)
    settings = f'[source.crates-io]\nreplace-with = "mirror"\n[source.mirror]\nregistry = "sparse+{address}/"\n'
    (home / "config.toml").write_text(settings)
    own = {"PATH": f"{TOOLCHAIN}/bin:/usr/bin:/bin", "HOME": str(home), "CARGO_HOME": str(home)}
    return Installer(own)


def locked(folder: Path, installer: Installer, files: dict[str, str]) -> Tree:
    """The project with the lock that cargo makes."""
    project = folder / "project"
    for path, text in files.items():
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(text)
    subprocess.run(["cargo", "generate-lockfile"], cwd=project, env=dict(installer.variables), check=True, capture_output=True)
    return Tree({**files, "Cargo.lock": (project / "Cargo.lock").read_text()})


@needs_cargo
async def test_locked_crates_are_found_without_a_network(tmp_path: Path, place: Folder, run: Run) -> None:
    pages: dict[str, bytes] = {}
    told: list[str] = []
    with served(pages) as address:
        pages.update(crate("needed", 'pub fn word() -> &\'static str { "needed" }\n', address))
        installer = cargo_for(tmp_path, address)
        tree = locked(tmp_path, installer, {"Cargo.toml": MANIFEST, "src/lib.rs": SOURCE})
        hostile = Tree(
            {**tree.files, ".cargo/config.toml": '[net]\ngit-fetch-with-cli = true\n[build]\nrustc = "/bin/false"\n'}
        )
        made = await prepare_environments(tmp_path / "home", hostile, ("cargo test",), installer, told.append)
    shutil.copytree(tmp_path / "project", place.path, dirs_exist_ok=True)
    shown = Environments(tuple(ShownFolder(each) for each in made))
    (listed,) = (each for each in inventory_of(shown.watched).trees if each.ecosystem == "rust")
    assert [each.purl for each in listed.packages] == ["pkg:cargo/needed@1.0.0"]
    assert (listed.unknown, listed.altered, listed.faults) == ((), (), ())
    done = await run("cargo", "test", "--locked", prefix=shown)
    assert b"test says ... ok" in done.stdout, done.stderr
    denied = await run("sh", "-c", "echo x >> $CARGO_HOME/config.toml", prefix=shown)
    assert denied.exit_code != 0


@pytest.mark.parametrize(
    "source", ["git+https://example.org/a.git#abc", "registry+https://example.org/index", "sparse+https://example.org/"]
)
async def test_a_crate_from_outside_crates_io_is_refused_with_advice(source: str) -> None:
    tree = Tree({"Cargo.toml": MANIFEST, "Cargo.lock": LOCKED.format(name="led", source=source)})
    with pytest.raises(NotPreparedError, match=r"led does not come from crates.io.*cargo vendor"):
        await rust_plans(tree, (), Installer({"PATH": "/usr/bin"}))


@pytest.mark.parametrize(
    "table",
    [
        '[dependencies]\nled = { git = "https://example.org/a" }\n',
        '[target."cfg(unix)".dev-dependencies]\nled = { version = "1", registry = "other" }\n',
        '[workspace.dependencies]\nled = { git = "https://example.org/a" }\n',
        '[patch.crates-io]\nneeded = { git = "https://example.org/a" }\n',
    ],
)
async def test_a_manifest_with_crates_from_elsewhere_is_refused(table: str) -> None:
    lock = LOCKED.format(name="needed", source=CRATES_IO) + 'checksum = "0"\n'
    tree = Tree({"Cargo.toml": f'[package]\nname = "small"\n{table}', "Cargo.lock": lock})
    with pytest.raises(NotPreparedError, match=r"Cargo.toml requests a crate that is not from crates.io"):
        await rust_plans(tree, (), Installer({"PATH": "/usr/bin"}))


async def test_a_crate_without_a_digest_is_refused() -> None:
    tree = Tree({"Cargo.toml": MANIFEST, "Cargo.lock": LOCKED.format(name="led", source=CRATES_IO)})
    with pytest.raises(NotPreparedError, match="led has no digest"):
        await rust_plans(tree, (), Installer({"PATH": "/usr/bin"}))


@pytest.mark.parametrize(
    "files",
    [
        {"Cargo.toml": '[package]\nname = "small"\n[dependencies]\nother = { path = "other" }\n'},
        {"Cargo.toml": MANIFEST, "Cargo.lock": 'version = 3\n[[package]]\nname = "small"\nversion = "0.1.0"\n'},
        {"Cargo.toml": MANIFEST, ".cargo/config.toml": '[source.crates-io]\nreplace-with = "vendored"\n'},
    ],
    ids=["by path", "locked by path", "held by the repository"],
)
async def test_crates_that_the_repository_has_need_no_registry(files: dict[str, str]) -> None:
    assert await rust_plans(Tree(files), (), Installer({"PATH": ""})) == ()


@needs_cargo
async def test_a_library_without_a_lock_gets_the_newest_allowed_crates(tmp_path: Path, place: Folder, run: Run) -> None:
    files = {"Cargo.toml": MANIFEST, "src/lib.rs": SOURCE}
    pages: dict[str, bytes] = {}
    told: list[str] = []
    with served(pages) as address:
        pages.update(crate("needed", 'pub fn word() -> &\'static str { "needed" }\n', address))
        installer = cargo_for(tmp_path, address)
        made = await prepare_environments(tmp_path / "home", Tree(files), ("cargo test",), installer, told.append)
    for path, text in files.items():
        (place.path / path).parent.mkdir(exist_ok=True)
        (place.path / path).write_text(text)
    done = await run("cargo", "test", prefix=Environments(tuple(ShownFolder(each) for each in made)))
    assert b"test says ... ok" in done.stdout, done.stderr
    assert "no lock beside Cargo.toml: the newest crates that it allows are taken" in told


@needs_cargo
async def test_a_manifest_without_a_lock_that_leads_elsewhere_is_refused() -> None:
    tree = Tree({"Cargo.toml": f'{MANIFEST}led = {{ git = "https://example.org/a" }}\n'})
    with pytest.raises(NotPreparedError, match=r"Cargo.toml requests a crate that is not from crates.io"):
        await rust_plans(tree, (), Installer({"PATH": f"{TOOLCHAIN}/bin:/usr/bin"}))


@needs_cargo
@pytest.mark.long
async def test_an_unreachable_registry_is_reported_with_the_next_step(tmp_path: Path) -> None:
    lock = LOCKED.format(name="needed", source=CRATES_IO) + f'checksum = "{"0" * 64}"\n'
    whole = f'{lock}[[package]]\nname = "small"\nversion = "0.1.0"\ndependencies = ["needed"]\n'
    tree = Tree({"Cargo.toml": MANIFEST, "src/lib.rs": "", "Cargo.lock": whole})
    with pytest.raises(NotPreparedError, match=r"where the registry cannot be reached, commit the crates"):
        await prepare_environments(tmp_path / "home", tree, ("cargo test",), cargo_for(tmp_path, "http://127.0.0.1:9"), print)
