"""Orders of environments: what leaves the sender's host, what the puller takes, and which results the sender takes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gatewright.app.environments import order as orders
from gatewright.app.environments.errors import NotPreparedError
from gatewright.app.environments.go_install import go_files
from gatewright.app.environments.maven_install import pom_files
from gatewright.app.environments.node_install import node_recipes
from gatewright.app.environments.order import check_result, environment_order, ordered_tree
from gatewright.app.environments.project_record import project_record
from gatewright.app.environments.python_recipe import python_recipe
from gatewright.app.environments.rust_install import rust_files
from gatewright.contracts import EnvironmentOrder, EnvironmentResult, codec
from gatewright.contracts.environment_order import OrderedEnvironment, OrderedFile
from gatewright.ecosystems.dependencies.readers import is_dependency_file
from gatewright.ecosystems.port import TreeFiles
from gatewright.errors import MalformedError
from gatewright.rules.environment_orders import OrderAnswer, OrderQuestion
from tests.ecosystems.python.trees import Tree

PROJECT = '[project]\nname = "shop"\ndynamic = ["version"]\ndependencies = ["needed"]\n'
WORKSPACES = {"name": "top", "workspaces": ["front/*"], "dependencies": {"other": "file:other"}}
MEMBER = {"name": "member", "dependencies": {"linked": "file:../../linked"}}
LOCK = {
    "lockfileVersion": 3,
    "packages": {"": {}, "front/a": {}, "other": {}, "node_modules/linked": {"resolved": "linked", "link": True}},
}
#: A file of each kind that is code, and names no package.
CODE = {"src/secret.py": "KEY = 1\n", "lib/index.js": "exports.a = 1\n", "main.go": "package main\n", "pom.txt": "x"}
Reader = Callable[[TreeFiles], Awaitable[Any]]


def sample(path: str = "requirements.txt", content: bytes = b"needed\n", sha256: str = "") -> OrderedFile:
    return OrderedFile(path=path, sha256=sha256 or hashlib.sha256(content).hexdigest(), content=content)


def ordered(*files: OrderedFile, names: tuple[str, ...] = ()) -> EnvironmentOrder:
    return EnvironmentOrder(commands=("pytest",), files=files, names=names)


async def read_recipes(tree: TreeFiles) -> Any:
    return await node_recipes(tree, ("npm test",), unlocked=True)


async def read_web_recipes(tree: TreeFiles) -> Any:
    return await node_recipes(tree, ("npm --prefix web test",), unlocked=True)


async def read_python(tree: TreeFiles) -> Any:
    return await python_recipe(tree, ("pytest",)), await project_record(tree)


@pytest.mark.parametrize(
    ("command", "files", "read"),
    [
        ("pytest", {"pyproject.toml": PROJECT, "src/shop/__init__.py": "__version__ = '1.5'\n"}, read_python),
        ("pytest", {"requirements-dev.txt": "-r deep/more.in\n-c limits", "deep/more.in": "a", "limits": "a<2"}, read_python),
        ("pytest", {"poetry.lock": "", "pyproject.toml": PROJECT, "setup.cfg": "[options]"}, read_python),
        (
            "npm test",
            {
                "package.json": json.dumps(WORKSPACES),
                "package-lock.json": json.dumps(LOCK),
                **{f"{folder}/package.json": json.dumps(MEMBER) for folder in ("front/a", "front/b")},
                **{f"{folder}/package.json": "{}" for folder in ("linked", "other", "tests/data")},
            },
            read_recipes,
        ),
        ("npm --prefix web test", {"web/package.json": "{}", "web/yarn.lock": "", "old/yarn.lock": ""}, read_web_recipes),
        (
            "cargo test",
            {"Cargo.toml": "[package]\nname='a'", "Cargo.lock": "", "b/Cargo.toml": "", ".cargo/config.toml": "[net]"},
            rust_files,
        ),
        ("go test ./...", {"go.mod": "module a", "go.sum": "", "b/go.mod": "", "b/go.sum": ""}, go_files),
        ("go test ./...", {"go.mod": "module a", "go.sum": "", "vendor/modules.txt": ""}, go_files),
        ("mvn test", {"pom.xml": "<project/>", "web/pom.xml": "<project/>", "web/src/pom.xml": ""}, pom_files),
    ],
)
async def test_an_order_has_all_that_decides_a_plan_and_no_code(command: str, files: Mapping[str, str], read: Reader) -> None:
    tree = Tree({**CODE, **files})
    order = codec.decode(codec.encode(await environment_order(tree, (command,))), EnvironmentOrder)
    received = ordered_tree(order)
    assert not received.paths & CODE.keys()
    assert await read(received) == await read(tree)


async def test_stubs_of_rust_are_sent_as_names_only() -> None:
    tree = Tree({"Cargo.toml": "[package]\nname='a'", "src/lib.rs": "secret"})
    order = await environment_order(tree, ("cargo test",))
    assert order.names == ("src/lib.rs",)
    assert [each.path for each in order.files] == ["Cargo.toml"]
    assert await ordered_tree(order).read("src/lib.rs") is None
    assert "src/lib.rs" in ordered_tree(order).paths


async def test_files_beyond_the_bus_are_refused_at_the_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orders, "MOST_BYTES", 10)
    with pytest.raises(NotPreparedError, match="the bus does not carry"):
        await environment_order(Tree({"requirements.txt": "much-too-long"}), ("pytest",))


@pytest.mark.parametrize(
    ("order", "pointer", "code"),
    [
        (ordered(sample("../requirements.txt")), "/files/0/path", "unsafe_path"),
        (ordered(sample("/etc/passwd")), "/files/0/path", "unsafe_path"),
        (ordered(sample("a/../../x")), "/files/0/path", "unsafe_path"),
        (ordered(sample(".git/config")), "/files/0/path", "unsafe_path"),
        (ordered(sample("a\0b")), "/files/0/path", "unsafe_path"),
        (ordered(names=("../../src/lib.rs",)), "/names/0", "unsafe_path"),
        (ordered(sample(), sample()), "/files/1/path", "invalid"),
        (ordered(sample(), names=("requirements.txt",)), "/names/0", "invalid"),
        (ordered(sample(sha256="0" * 64)), "/files/0/sha256", "digest_differs"),
        (ordered(sample(content=b"#" * (orders.MOST_BYTES + 1))), "/files", "too_large"),
    ],
)
def test_the_puller_refuses_an_order_with_a_fault(order: EnvironmentOrder, pointer: str, code: str) -> None:
    with pytest.raises(MalformedError) as refused:
        ordered_tree(order)
    assert refused.value.reason == "environment_order_invalid"
    assert [(fault.pointer, fault.code) for fault in refused.value.faults] == [(pointer, code)]


async def test_a_file_that_the_order_lacks_is_not_read_elsewhere() -> None:
    tree = ordered_tree(ordered(sample(content=b"-r other.txt\n")))
    with pytest.raises(NotPreparedError, match=r"other\.txt is not a file of the repository"):
        await python_recipe(tree, ("pytest",))


READY = EnvironmentResult(
    order_sha256="0" * 64,
    state="READY",
    environments=(OrderedEnvironment(prefix="/srv/environments/a", ecosystem="python"), OrderedEnvironment(prefix="/opt/go")),
)


def test_the_prefixes_of_a_result_keep_their_order() -> None:
    assert check_result(ordered(sample()), READY) == (Path("/srv/environments/a"), Path("/opt/go"))


@pytest.mark.parametrize(
    "forged",
    [
        OrderedEnvironment(prefix="environments/a"),
        OrderedEnvironment(prefix="/srv/environments/../../root"),
        OrderedEnvironment(prefix="/srv/a\n/b"),
        OrderedEnvironment(prefix="/srv/environments/a", ecosystem="node"),
    ],
)
def test_a_result_that_the_order_cannot_have_is_refused(forged: OrderedEnvironment) -> None:
    with pytest.raises(NotPreparedError):
        check_result(ordered(sample()), msgspec.structs.replace(READY, environments=(forged,)))


@pytest.mark.parametrize(
    "names",
    [
        ("uv.lock", "pyproject.toml"),
        ("poetry.lock", "pyproject.toml"),
        ("requirements/test.txt", "dev-requirements.txt", "setup.cfg"),
        ("package.json", "package-lock.json"),
        ("package.json", "npm-shrinkwrap.json"),
        ("package.json", "yarn.lock"),
        ("package.json", "pnpm-lock.yaml", "pnpm-workspace.yaml"),
        ("Cargo.toml", "Cargo.lock", "member/Cargo.toml", ".cargo/config.toml"),
        ("go.mod", "go.sum", "go.work", "go.work.sum"),
        ("pom.xml", "module/pom.xml"),
    ],
)
def test_files_of_installers_are_dependency_files(names: tuple[str, ...]) -> None:
    contents = {".json": b"{}", ".xml": b"<project/>", ".mod": b"module a\n", ".yaml": b"lockfileVersion: '9.0'\n"}
    files = {name: contents.get(Path(name).suffix, b"") for name in names}
    assert [name for name in names if not is_dependency_file(name.encode())] == []
    question = OrderQuestion(("./test",), names, {})
    answer = msgspec.msgpack.decode(orders.answer_question(msgspec.msgpack.encode(question)), type=OrderAnswer)
    assert answer.missing, "an installer reads one of them at least"
    question = OrderQuestion(("./test",), names, dict(files))
    answer = msgspec.msgpack.decode(orders.answer_question(msgspec.msgpack.encode(question)), type=OrderAnswer)
    assert {each.path for each in codec.decode(answer.order, EnvironmentOrder).files} == set(names), answer.fault
