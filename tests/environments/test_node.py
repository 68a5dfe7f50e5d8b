"""``--env auto`` for Node: packages of the lock, from the registry that the user has configured; their scripts do not run."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from gatewright.app.environments.errors import NotPreparedError
from gatewright.app.environments.node_recipe import PUBLIC_HOSTS
from gatewright.app.environments.plan import Installer
from gatewright.app.environments.prepare import prepare_environments
from gatewright.host_facts import surroundings
from gatewright.sandbox.binary import find_bwrap
from gatewright.sandbox.environments import PREPARED, Environments, ShownFolder
from tests.ecosystems.python.trees import Tree
from tests.environments.registries import NpmRegistry, served
from tests.sandbox.places import Folder, Run

NPM_HOST, YARN_HOST = PUBLIC_HOSTS
NPM = shutil.which("npm", path="/usr/bin:/usr/local/bin")
needs_npm = pytest.mark.skipif(NPM is None, reason="there is no npm below /usr (Debian: apt install nodejs npm)")
TOP = {"name": "top", "version": "1.0.0", "workspaces": ["packages/*"]}
MEMBER = {"name": "one", "version": "1.0.0", "main": "index.js"}
#: What a lock says of a workspace: where it is, and that a link leads there.
LINKS = {"packages/one": MEMBER, "node_modules/one": {"resolved": "packages/one", "link": True}}


@pytest.fixture
def registry() -> NpmRegistry:
    made = NpmRegistry()
    made.add(
        "needed", {"index.js": "exports.word = 'needed';\n", "cli.js": "#!/bin/sh\necho started\n"}, bin={"starts": "cli.js"}
    )
    return made


@pytest.fixture
def address(registry: NpmRegistry) -> Iterator[str]:
    with served(registry.pages) as found:
        yield found


def tree_of(registry: NpmRegistry, scripts: Mapping[str, str] | None = None, files: Mapping[str, str] | None = None) -> Tree:
    """A project with one workspace, locked to all that the registry has."""
    asked = {name.removeprefix("node_modules/"): "^1.0.0" for name in registry.entries}
    top = {**TOP, "devDependencies": asked, "scripts": dict(scripts or {})}
    return Tree(
        {
            "package.json": json.dumps(top),
            "package-lock.json": registry.lock(top, **LINKS),
            "packages/one/package.json": json.dumps(MEMBER),
            "packages/one/index.js": "exports.word = 'candidate';\n",
            **(files or {}),
        }
    )


def npm_for(folder: Path, address: str) -> Installer:
    """The user's own configuration of npm: a registry, and a cache that is empty."""
    home = folder / "user"
    home.mkdir(exist_ok=True)
    (home / ".npmrc").write_text(f"registry={address}/\nupdate-notifier=false\n")
    return Installer({"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home)})


async def prepare(folder: Path, tree: Tree, installer: Installer, *commands: str) -> Path:
    told: list[str] = []
    (made,) = await prepare_environments(folder / "home", tree, commands or ("npm test",), installer, told.append)
    return made


def write(place: Folder, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        (place.path / path).parent.mkdir(parents=True, exist_ok=True)
        (place.path / path).write_text(text)


@needs_npm
async def test_locked_packages_are_shown_and_a_workspace_is_the_candidates(
    tmp_path: Path, registry: NpmRegistry, address: str, place: Folder, run: Run
) -> None:
    tree = tree_of(registry)
    prefix = await prepare(tmp_path, tree, npm_for(tmp_path, address))
    write(place, tree.files)
    done = await run("node", "-p", "require('needed').word + ' ' + require('one').word", prefix=prefix)
    assert done.stdout == b"needed candidate\n", done.stderr
    assert (await run("starts", prefix=prefix)).stdout == b"started\n"
    denied = await run("sh", "-c", "echo x > node_modules/needed/index.js", prefix=prefix)
    assert b"Read-only file system" in denied.stderr
    for name in (".cache", ".tmp", ".vite", ".vite-temp", ".vitest"):
        kept = await run("sh", "-c", f"echo x > node_modules/{name}/x && cat node_modules/{name}/x", prefix=prefix)
        assert kept.stdout == b"x\n"
        assert not list((prefix / "files/node_modules" / name).iterdir())


@needs_npm
async def test_no_script_of_a_package_runs_when_it_is_installed(tmp_path: Path, registry: NpmRegistry, address: str) -> None:
    scripts = dict.fromkeys(("preinstall", "install", "postinstall"), f"touch {tmp_path}/ran")
    registry.add("scripted", {"index.js": ""}, scripts=scripts)
    prefix = await prepare(tmp_path, tree_of(registry, scripts), npm_for(tmp_path, address))
    assert (prefix / "files/node_modules/scripted/index.js").is_file()
    assert not (tmp_path / "ran").exists()


@needs_npm
async def test_the_registry_that_a_repository_names_is_not_asked(tmp_path: Path, registry: NpmRegistry, address: str) -> None:
    asked: list[str] = []
    with served({}, asked) as other:
        settings = {".npmrc": f"registry={other}/\nignore-scripts=false\n", "packages/one/.npmrc": f"registry={other}/\n"}
        await prepare(tmp_path, tree_of(registry, files=settings), npm_for(tmp_path, address))
    assert asked == []


@needs_npm
async def test_lock_and_result_are_recorded_with_their_digests(tmp_path: Path, registry: NpmRegistry, address: str) -> None:
    prefix = await prepare(tmp_path, tree_of(registry), npm_for(tmp_path, address))
    said = surroundings(prefix=prefix).versions["environment"]
    assert said.startswith("npm ")
    assert "(no scripts), package-lock.json sha256:" in said
    assert "node_modules/.package-lock.json sha256:" in said


@needs_npm
async def test_packages_of_another_registry_need_a_word_of_the_user(
    tmp_path: Path, registry: NpmRegistry, address: str
) -> None:
    entry = registry.entries["node_modules/needed"]
    host = address.removeprefix("http://")
    entry["resolved"] = str(entry["resolved"]).replace(f"https://{NPM_HOST}", address)
    with served({}) as elsewhere, pytest.raises(NotPreparedError) as refused:
        await prepare(tmp_path, tree_of(registry), npm_for(tmp_path, elsewhere))
    assert f"its packages come from {host}, which is no registry that npm is configured with" in refused.value.message
    assert (await prepare(tmp_path, tree_of(registry), npm_for(tmp_path, address))).is_dir()


@pytest.mark.parametrize(
    "entry",
    [
        {"version": "1.0.0", "resolved": "git+ssh://git@example.org/a/b.git#abc"},
        {"version": "1.0.0", "resolved": "file:../../outside.tgz", "integrity": "sha512-x"},
        {"version": "1.0.0", "resolved": f"http://{NPM_HOST}/needed/-/needed-1.0.0.tgz", "integrity": "sha512-x"},
        {"version": "1.0.0", "resolved": "https://user:word@example.org/x.tgz", "integrity": "sha512-x"},
        {"version": "git+https://example.org/a.git", "integrity": "sha512-x"},
        {"version": "1.0.0", "resolved": f"https://{NPM_HOST}/needed/-/needed-1.0.0.tgz"},
        {"resolved": "../outside", "link": True},
        {"resolved": "/etc", "link": True},
        {"link": True},
    ],
)
async def test_a_lock_that_leads_elsewhere_is_refused_before_anything_is_asked(
    tmp_path: Path, registry: NpmRegistry, entry: dict[str, object]
) -> None:
    registry.entries["node_modules/led"] = entry
    with pytest.raises(NotPreparedError, match=r"package-lock.json: .*led"):
        await prepare(tmp_path, tree_of(registry), fake_npm(tmp_path, "touch ran"))
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    "name",
    [
        "../../victim/node_modules/led",
        "node_modules/../../led",
        "/etc/node_modules/led",
        "node_modules/a/b/led",
        "node_modules/@s/../../led",
        "../led",
        "led",
    ],
)
async def test_a_lock_that_puts_packages_outside_is_refused(tmp_path: Path, registry: NpmRegistry, name: str) -> None:
    """npm writes where a lock says, and empties folders of packages before."""
    entry = registry.entries["node_modules/needed"]
    manifest = {"name": "top", "devDependencies": {"needed": "^1.0.0"}}
    tree = Tree({"package.json": json.dumps(manifest), "package-lock.json": registry.lock(manifest, **{name: entry})})
    with pytest.raises(NotPreparedError, match=r"package-lock.json: .*led"):
        await prepare(tmp_path, tree, fake_npm(tmp_path, INSTALLS))
    assert not (tmp_path / "home").exists()


async def test_the_older_form_of_a_lock_is_held_to_the_same(tmp_path: Path, registry: NpmRegistry) -> None:
    manifest = json.dumps({"name": "top", "dependencies": {"needed": "^1.0.0"}})
    good = {"version": "1.0.0", "integrity": "sha512-x"}
    for name, entry in (
        ("../../led", good),
        ("led", {**good, "version": "git+https://example.org/a.git"}),
        ("needed", {**good, "dependencies": {"led": {**good, "version": "file:../x"}}}),
    ):
        lock = json.dumps({"name": "top", "lockfileVersion": 1, "dependencies": {name: entry}})
        with pytest.raises(NotPreparedError, match=r"package-lock.json: .*led"):
            await prepare(tmp_path, Tree({"package.json": manifest, "package-lock.json": lock}), fake_npm(tmp_path, INSTALLS))
    lock = json.dumps(
        {"name": "top", "lockfileVersion": 1, "dependencies": {"@s/needed": {**good, "dependencies": {"a": good}}}}
    )
    await prepare(tmp_path, Tree({"package.json": manifest, "package-lock.json": lock}), fake_npm(tmp_path, INSTALLS))


@pytest.mark.parametrize("glob", ["../*", "packages/../../x", "{..,packages}/*", "/home/*", "~/x", "!../x"])
async def test_workspaces_outside_of_the_repository_are_refused(tmp_path: Path, registry: NpmRegistry, glob: str) -> None:
    """npm ci empties the packages of all workspaces."""
    files = {"package.json": json.dumps({**TOP, "workspaces": [glob]}), "package-lock.json": registry.lock(TOP)}
    with pytest.raises(NotPreparedError, match="workspaces outside"):
        await prepare(tmp_path, Tree(files), fake_npm(tmp_path, INSTALLS))


@pytest.mark.parametrize(
    "spec",
    [
        "git+https://example.org/a.git",
        "user/repository",
        "file:../outside",
        "https://example.org/a.tgz",
        "npm:a/b",
        "~/x",
        "/x",
    ],
)
@pytest.mark.parametrize("table", ["dependencies", "overrides"])
async def test_a_manifest_that_asks_for_what_no_registry_has_is_refused(
    tmp_path: Path, registry: NpmRegistry, spec: str, table: str
) -> None:
    """npm looks for what its lock has not, and would run git, or fetch from anywhere."""
    member = json.dumps({**MEMBER, table: {"led": spec}})
    with pytest.raises(NotPreparedError, match=r"packages/one/package.json asks for .*led"):
        await prepare(tmp_path, tree_of(registry, files={"packages/one/package.json": member}), fake_npm(tmp_path, "touch ran"))


def fake_npm(folder: Path, script: str, configured: str = "{}") -> Installer:
    """An npm that does what ``script`` says; ``$TOP`` is the folder that it is to fill. Its configuration is ``configured``."""
    (folder / "bin").mkdir(exist_ok=True)
    program = folder / "bin/npm"
    answers = ('[ "$1" = --version ] && echo 9 && exit 0', f"[ \"$1\" = config ] && echo '{configured}' && exit 0")
    lines = (*answers, "for TOP; do :; done", script)
    program.write_text("#!/bin/sh\n" + "".join(f"{line}\n" for line in lines))
    program.chmod(0o755)
    return Installer({"PATH": f"{folder}/bin:/usr/bin:/bin", "HOME": str(folder)})


INSTALLS = 'mkdir -p "$TOP/node_modules/needed" && echo > "$TOP/node_modules/needed/index.js"'


@needs_npm
async def test_a_library_without_a_lock_gets_the_newest_allowed_packages(
    tmp_path: Path, registry: NpmRegistry, address: str, place: Folder, run: Run
) -> None:
    registry.add("deeper", {"index.js": "exports.word = 'deeper';\n"})
    registry.add("needed", {"index.js": "exports.word = require('deeper').word;\n"}, "1.2.0", dependencies={"deeper": "*"})
    manifest = {"name": "library", "scripts": {"test": "node --test"}, "devDependencies": {"needed": "^1.0.0"}}
    asked: list[str] = []
    with served({}, asked) as other:
        tree = Tree({"package.json": json.dumps(manifest), ".npmrc": f"registry={other}/\npackage-lock=false\n"})
        prefix = await prepare(tmp_path, tree, npm_for(tmp_path, address))
    write(place, tree.files)
    assert (await run("node", "-p", "require('needed').word", prefix=prefix)).stdout == b"deeper\n"
    said = surroundings(prefix=prefix).versions["environment"]
    assert "(newest versions, no scripts), package.json (packages) sha256:" in said
    assert "node_modules/.package-lock.json sha256:" in said
    assert asked == []


@needs_npm
async def test_an_unavailable_package_for_another_system_is_skipped(
    tmp_path: Path, registry: NpmRegistry, address: str
) -> None:
    registry.add("needed", {"index.js": ""}, "1.1.0", optionalDependencies={"needed-elsewhere": "1.1.0"})
    registry.add("needed-elsewhere", {"index.js": ""}, "1.0.0", os=["win32"])
    manifest = {"name": "library", "devDependencies": {"needed": "^1.0.0"}}
    prefix = await prepare(tmp_path, Tree({"package.json": json.dumps(manifest)}), npm_for(tmp_path, address))
    assert (prefix / "files/node_modules/needed/index.js").is_file()


@needs_npm
async def test_workspaces_without_a_lock_are_the_candidates(
    tmp_path: Path, registry: NpmRegistry, address: str, place: Folder, run: Run
) -> None:
    files = {path: text for path, text in tree_of(registry).files.items() if path != "package-lock.json"}
    prefix = await prepare(tmp_path, Tree(files), npm_for(tmp_path, address), "npm test -w packages/one")
    write(place, files)
    done = await run("node", "-p", "require('needed').word + ' ' + require('one').word", prefix=prefix)
    assert done.stdout == b"needed candidate\n", done.stderr


@needs_npm
@pytest.mark.parametrize("dependency", ["git+https://example.org/a.git", "file:../../../../outside", "{elsewhere}/a.tgz"])
async def test_without_a_lock_packages_from_elsewhere_are_not_followed(
    tmp_path: Path, registry: NpmRegistry, address: str, dependency: str
) -> None:
    """The manifest of the repository is harmless; that of a package which it asks for is not."""
    manifest = {"name": "library", "devDependencies": {"leads": "*"}}
    with served({}) as elsewhere:
        registry.add("leads", {"index.js": ""}, dependencies={"led": dependency.format(elsewhere=elsewhere)})
        with pytest.raises(NotPreparedError, match=r"package\.json"):
            await prepare(tmp_path, Tree({"package.json": json.dumps(manifest)}), npm_for(tmp_path, address))
    assert [each.suffix for each in (tmp_path / "home/environments").iterdir()] == [".lock"]


async def test_a_manifest_beside_a_python_project_installs_no_packages(tmp_path: Path) -> None:
    files = {"package.json": json.dumps({"devDependencies": {"prettier": "*"}}), "Makefile": "test:\n\ttrue\n"}
    told: list[str] = []
    assert (
        await prepare_environments(tmp_path / "home", Tree(files), ("make test",), fake_npm(tmp_path, "exit 1"), told.append)
        == ()
    )


@pytest.mark.parametrize("target", ["/etc", "../../../../outside", "../../../gatewright-environment.json"])
async def test_a_package_that_plants_a_link_out_of_the_repository_is_refused(
    tmp_path: Path, registry: NpmRegistry, target: str
) -> None:
    planting = fake_npm(tmp_path, f'{INSTALLS} && ln -s {target} "$TOP/node_modules/needed/link"')
    with pytest.raises(NotPreparedError, match=r"brought a link out of the repository: .*needed/link"):
        await prepare(tmp_path, tree_of(registry), planting)
    assert [each.suffix for each in (tmp_path / "home/environments").iterdir()] == [".lock"]


async def test_an_environment_of_a_killed_maker_is_made_again(tmp_path: Path, registry: NpmRegistry) -> None:
    """The package brings the record that only a whole environment has, and the maker is killed after it."""
    record = json.dumps({"tool": "npm 9", "sources": {}, "ecosystem": "node", "mounts": {"node_modules": "files/node_modules"}})
    fake_npm(tmp_path, f"{INSTALLS} && echo '{record}' > \"$TOP/../{PREPARED}\" && exec sleep 600")
    (tmp_path / "tree.json").write_text(json.dumps(dict(tree_of(registry).files)))
    program = (
        "import asyncio, json, pathlib, sys\n"
        "from gatewright.app.environments.plan import Installer\n"
        "from tests.environments.test_node import Tree, prepare\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "installer = Installer({'PATH': f'{folder}/bin:/usr/bin:/bin', 'HOME': str(folder)})\n"
        "asyncio.run(prepare(folder, Tree(json.loads((folder / 'tree.json').read_text())), installer))\n"
    )
    killed = await asyncio.create_subprocess_exec(sys.executable, "-c", program, str(tmp_path))
    while not (found := list((tmp_path / "home/environments").glob(f"*/{PREPARED}"))):
        assert killed.returncode is None
        await asyncio.sleep(0)
    killed.kill()
    await killed.wait()
    left = found[0].parent
    prefix = await prepare(tmp_path, tree_of(registry), fake_npm(tmp_path, INSTALLS))
    assert prefix == left
    assert "package-lock.json" in json.loads((prefix / PREPARED).read_text())["sources"]
    await prepare(tmp_path, tree_of(registry), fake_npm(tmp_path, "exit 1"))


async def test_two_runs_that_prepare_the_same_packages_at_once_install_them_once(tmp_path: Path, registry: NpmRegistry) -> None:
    installer, tree, told = fake_npm(tmp_path, INSTALLS), tree_of(registry), list[str]()
    once = partial(prepare_environments, tmp_path / "home", tree, ("npm test",), installer, told.append)
    one, other = await asyncio.gather(once(), once())
    assert one == other
    assert [each.split()[0] for each in told].count("preparing") == 1


def test_a_full_disk_leaves_no_environment_and_is_reported(tmp_path: Path, registry: NpmRegistry) -> None:
    fake_npm(tmp_path, f'{INSTALLS} && head -c 4000000 /dev/zero > "$TOP/node_modules/large"')
    (tmp_path / "tree.json").write_text(json.dumps(dict(tree_of(registry).files)))
    (tmp_path / "home").mkdir()
    program = (
        "import asyncio, json, pathlib, sys\n"
        "from gatewright.app.environments.errors import NotPreparedError\n"
        "from gatewright.app.environments.plan import Installer\n"
        "from tests.environments.test_node import Tree, prepare\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "installer = Installer({'PATH': f'{folder}/bin:/usr/bin:/bin', 'HOME': str(folder)})\n"
        "tree = Tree(json.loads((folder / 'tree.json').read_text()))\n"
        "try:\n    asyncio.run(prepare(folder, tree, installer))\n"
        "except NotPreparedError as error:\n    print(error.message)\n"
        "print([each.suffix for each in (folder / 'home/environments').iterdir()])\n"
    )
    walls = (str(find_bwrap().path), "--dev-bind", "/", "/", "--size", "1000000", "--tmpfs", str(tmp_path / "home"))
    done = subprocess.run((*walls, sys.executable, "-c", program, str(tmp_path)), capture_output=True, text=True, check=True)
    assert "No space left on device" in done.stdout
    assert done.stdout.splitlines()[-1] == "['.lock']"


async def test_packages_of_two_folders_are_shown_each_in_its_own_place(tmp_path: Path, place: Folder, run: Run) -> None:
    for name in ("front", "back"):
        (tmp_path / name / "pkg").mkdir(parents=True)
        (tmp_path / name / "pkg/name").write_text(name)
    shown = Environments(tuple(ShownFolder(tmp_path / name, f"{name}/node_modules") for name in ("front", "back")))
    tmp_path.chmod(0o755)
    done = await run("cat", "front/node_modules/pkg/name", "back/node_modules/pkg/name", prefix=shown)
    assert done.stdout == b"frontback"
    assert not list((place.path / "front/node_modules").iterdir())


PNPM = "lockfileVersion: '9.0'\npackages:\n\n  needed@1.0.0:\n    resolution: {%s}\n"
YARN = '# yarn lockfile v1\n\nneeded@^1.0.0:\n  version "1.0.0"\n  resolved "%s"\n  integrity sha512-x\n'


@pytest.mark.parametrize(
    ("lock", "content"),
    [
        ("pnpm-lock.yaml", PNPM % "integrity: sha512-x, tarball: https://example.org/a.tgz"),
        ("pnpm-lock.yaml", PNPM % "tarball: https://codeload.github.com/a/b/tar.gz/abc"),
        ("pnpm-lock.yaml", PNPM % "commit: abc, repo: https://example.org/a.git, type: git"),
        ("pnpm-lock.yaml", PNPM % "directory: ../outside, type: directory"),
        ("pnpm-lock.yaml", "packages:\n  needed@1.0.0:\n    resolution:\n      tarball: https://example.org/a.tgz\n"),
        ("yarn.lock", YARN % "git+https://example.org/a.git#abc"),
        ("yarn.lock", YARN % f"http://{YARN_HOST}/needed.tgz"),
        ("yarn.lock", YARN % "file:../a.tgz"),
        ("yarn.lock", '# yarn lockfile v1\n\n"needed@file:..":\n  version "1.0.0"\n'),
        ("yarn.lock", f'# yarn lockfile v1\n\nn@1:\n  version "1.0.0"\n  resolved "https://{YARN_HOST}/n.tgz"\n'),
        ("yarn.lock", "__metadata:\n  version: 8\n"),
    ],
)
async def test_a_lock_of_pnpm_or_yarn_that_leads_elsewhere_is_refused(tmp_path: Path, lock: str, content: str) -> None:
    tree = Tree({"package.json": json.dumps({**TOP, "dependencies": {"needed": "^1.0.0"}}), lock: content})
    installer = fake_npm(tmp_path, INSTALLS)
    for name in ("pnpm", "yarn"):
        shutil.copy(tmp_path / "bin/npm", tmp_path / "bin" / name)
    with pytest.raises(NotPreparedError, match=lock):
        await prepare(tmp_path, tree, installer)
    assert not (tmp_path / "home").exists()


async def test_settings_of_pnpm_that_the_repository_brings_are_not_used(tmp_path: Path) -> None:
    settings = "packages:\n  - 'packages/*'\nregistry: https://example.org\ndangerouslyAllowAllBuilds: true\n"
    tree = Tree({"package.json": "{}", "pnpm-lock.yaml": PNPM % "integrity: sha512-x", "pnpm-workspace.yaml": settings})
    installer = fake_npm(tmp_path, INSTALLS)
    shutil.move(tmp_path / "bin/npm", tmp_path / "bin/pnpm")
    prefix = await prepare(tmp_path, tree, installer)
    assert (prefix / "files/pnpm-workspace.yaml").read_text() == 'packages:\n  - "packages/*"\n'


async def test_pnpm_is_the_hosts_own_and_gets_no_empty_list_of_packages(tmp_path: Path) -> None:
    """It would fetch, and start, the version that package.json names; and it refuses a workspace file without packages."""
    package = json.dumps({"packageManager": "pnpm@10.33.0"})
    tree = Tree(
        {
            "package.json": package,
            "pnpm-lock.yaml": PNPM % "integrity: sha512-x",
            "pnpm-workspace.yaml": "onlyBuiltDependencies: [x]\n",
        }
    )
    installer = fake_npm(tmp_path, 'echo "$npm_config_manage_package_manager_versions" >"$TOP/switches"\n' + INSTALLS)
    shutil.move(tmp_path / "bin/npm", tmp_path / "bin/pnpm")
    prefix = await prepare(tmp_path, tree, installer)
    assert (prefix / "files/switches").read_text() == "false\n"
    assert not (prefix / "files/pnpm-workspace.yaml").exists()


@pytest.mark.parametrize("npm", [{}, {"registry": "https://npm.example.org/npm/"}], ids=["of yarn", "of npm"])
async def test_a_yarn_lock_uses_the_configured_registry(tmp_path: Path, npm: dict[str, str]) -> None:
    """Yarn prints its own settings and those of npm, which it prefers."""
    own = {"registry": "https://yarn.example.org/npm/", "ignore-scripts": False}
    printed = [
        *({"type": "info", "data": "yarn config"}, {"type": "inspect", "data": own}),
        *({"type": "info", "data": "npm config"}, {"type": "inspect", "data": npm}),
    ]
    tree = Tree({"package.json": "{}", "yarn.lock": YARN % f"https://{YARN_HOST}/needed.tgz#{'0' * 40}"})
    installer = fake_npm(tmp_path, INSTALLS, "\n".join(map(json.dumps, printed)))
    shutil.move(tmp_path / "bin/npm", tmp_path / "bin/yarn")
    prefix = await prepare(tmp_path, tree, installer)
    registry = {**own, **npm}["registry"]
    assert f'resolved "{registry}needed.tgz#0' in (prefix / "files/yarn.lock").read_text()


async def test_a_lock_whose_program_is_missing_is_reported(tmp_path: Path) -> None:
    tree = Tree({"package.json": "{}", "pnpm-lock.yaml": ""})
    with pytest.raises(NotPreparedError, match=r"installed by pnpm, which this host has not.*--mount node_modules"):
        await prepare(tmp_path, tree, Installer({"PATH": "", "HOME": str(tmp_path)}))
