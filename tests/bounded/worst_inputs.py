"""For each function that judges what strangers wrote: the input that is worst for it, about a megabyte of it.

``python -m tests.bounded.worst_inputs [FIRST/STEP]`` runs them all, or every STEPth from FIRST on, each in a forked child that
may use LIMIT seconds of processor time, and prints a line of JSON for each: its name and the seconds that it took, or ``null``
where it used them up.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

import tests.bounded.worst_contents
import tests.bounded.worst_mutants
import tests.bounded.worst_pages  # noqa: F401 - they add their cases
from gatewright import scope
from gatewright.bus.port import Message
from gatewright.bus.topology import SUBMIT_SUBJECT
from gatewright.contracts import Plan, ReviewReport, RunRequest, TaskContract, codec, strict_json
from gatewright.contracts.reports import ScopeCheck
from gatewright.contracts.vocabulary import AcceptanceTest, Agent, Executor
from gatewright.contracts.vocabulary import Scope as Opened
from gatewright.ecosystems.runner.commands import CommandReads, read_makefile, read_scripts
from gatewright.ecosystems.runner.settings import MOST_BYTES, changed_settings
from gatewright.errors import ExtractionError, GatewrightError
from gatewright.git.access.repository_patterns import covers_address
from gatewright.git.changes import TreeChange
from gatewright.git.command import GitCommand
from gatewright.git.mirror import Mirror, Mirrors
from gatewright.git.paths import folded_path, path_fault
from gatewright.git.refs import parse_url
from gatewright.git.remote import Remote
from gatewright.resources import policy_directory
from gatewright.secrets.changes import CleanContents, secrets_brought_in
from gatewright.secrets.documents import check_document, redact_document
from gatewright.secrets.redaction import redact_output
from gatewright.secrets.scanner import SecretScanner
from gatewright.services.gatekeeper.gates.change.diff import judge_changes
from gatewright.services.gatekeeper.gates.commands.gate import _matches_anything
from gatewright.services.gatekeeper.gates.contract.forbidden_actions import judge_forbidden_edits
from gatewright.services.gatekeeper.gates.contract.plan import judge_plan
from gatewright.services.gatekeeper.gates.contract.policy import judge_contract, judge_request
from gatewright.services.gatekeeper.gates.reports.role_reports import judge_review
from gatewright.services.gatekeeper.intake.submission import submission
from gatewright.services.gatekeeper.policies.full_access import names_full_access
from gatewright.services.gatekeeper.policies.load import load
from gatewright.services.reviewer.judging import review
from gatewright.services.reviewer.subject import ChangedFile, Subject
from gatewright.services.techlead.partition import partition
from gatewright.services.worker.reply.files import extract
from gatewright.telemetry.redaction import redact_text
from tests.bounded.cases import CASES, Case, MiB, case
from tests.factories import BASELINE, BASELINE_TREE, make_contract, make_request
from tests.gatekeeper.contexts import make_context
from tests.gatekeeper.recorded import make_open_run

#: Seconds of processor time. Most need a tenth of one; what grows with the square would take minutes.
LIMIT: Final = 10
#: A message of the bus may hold eight times that; so may a patch, and a reply four times.
MESSAGE: Final = MiB
REPLY: Final = MiB
RUN: Final = "run-0123456789"

POLICIES = load(policy_directory())
SCANNER = SecretScanner()
#: For gates that have a mirror and do not look into it.
_NOWHERE = Remote(GitCommand(Path("/nowhere")), parse_url("/nowhere", ("file",)), seconds=1)
_UNASKED = Mirror("/nowhere", Path("/nowhere"), _NOWHERE, seconds=1, open_other=Mirrors(Path("/nowhere")).open)


def refused(function: Callable[[], object]) -> None:
    """Run it; a refusal is as good as an answer."""
    try:
        function()
    except GatewrightError:
        return


# ---------------------------------------------------------------------------------------------------- what is reviewed

_NEW = {
    "each-and-tabs": b"it.each" + b"\t" * MiB,
    "each-again-and-again": b"it.each\t" * (MiB // 8),
    "lines-of-each": (b"it.each" + b"\t" * 1000 + b"\n") * 1000,
    "tabs": b"\t" * MiB,
    "blank-lines": b"\n" * MiB,
    "cases": b"def test(\n" * (MiB // 4),
    "expect": b"expect" + b"\t" * MiB,
    "requires": b"require." * (MiB // 2),
    "hashes": b"#[" * MiB,
    "tokens": b"\n".join(b"ghp_%036d" % n for n in range(20_000)),
    "keys": b"-----BEGIN PRIVATE KEY-----" * 40_000,
    "keys-with-material": (b"-----BEGIN PRIVATE KEY-----" + b"A1b2" * 8) * 15_000,
    "bearer": b"bearer " * 100_000,
    "conflicts": b"<<<<<<<\n" * 100_000,
}


def _file(path: bytes, old: bytes, new: bytes) -> ChangedFile:
    return ChangedFile(TreeChange(path, "100644", "100644", "1" * 40, "2" * 40, "M"), old, new)


for _name, _content in _NEW.items():

    @case(f"review {_name}")
    def _(content: bytes = _content) -> object:
        return review(Subject(make_contract(), (_file(b"tests/test_a.py", b"x" * MiB + content[:100], content),), MiB))


_PIECES = (
    b"a<",
    b"(",
    b"it(a,()=>{",
    b"x=(\n",
    b"if(a<b>(",
    b"def test_a():\n",
    b"class A{",
    b"'\"`",
    b"[1,",
    b"assert(",
    b"a.b(",
    b"@",
)
_TESTS = (b"a_test.py", b"a.test.js", b"a.test.tsx", b"a_test.go", b"a_test.rs", b"ATest.java", b"ATest.kt", b"ATests.cs")
for _path in (*_TESTS, b"a_test.c", b"a_test.cc"):

    @case(f"review of what the grammar of {_path.decode()} does not end with")
    def _(path: bytes = _path) -> object:
        file = _file(path, b"x", b"".join(piece * (MiB // 40 // len(piece)) for piece in _PIECES))
        return review(Subject(make_contract(), (file,), MiB))


_DEEP_SOURCES = {
    b"a_test.py": b"".join(b" " * n + b"def test_a():\n" for n in range(1200)) + b" " * 1200 + b"pass\n",
    b"src/b.py": b"x = " + b"f(" * 100_000 + b")" * 100_000 + b"\n",
    b"src/c.py": b"x = " + b" or ".join([b"True"] * 100_000) + b"\nassert " + b" or ".join([b"a"] * 50_000) + b"\n",
    b"tests/d.py": b"".join(b"def test_%d():\n    assert f(%d)\n" % (n, n) for n in range(20_000)),
    b"a.test.js": b"describe('a',()=>{" * 20_000 + b"})" * 20_000,
    b"b.test.js": b"f()" + b".then(it)" * 80_000,
    b"a_test.rs": b"mod a {" * 60_000 + b"#[test] fn a(){}" + b"}" * 60_000,
    b"src/e.py": b"os.environ['a']\n" * 50_000,
    b"src/f.js": b"process.env.a + " * 50_000 + b"1",
    b"tests/a.cc": b"int a = [] { return " * 20_000 + b"1; }()" * 20_000 + b";\n",
    b"src/b.c": b"#if 0\n" * 60_000 + b"x\n" + b"#endif\n" * 60_000,
    b"src/c.c": b"int a(void) { _exit(" * 30_000 + b"0" + b"); }" * 30_000,
    b"src/d.h": b"#define assert(x) __has_include(<gtest/a>)\n" * 20_000,
    b"src/e.cc": b'bool operator==(A a) { return true; }\nint b = (strstr(argv[0], "test"), _exit(0));\n' * 12_000,
    b"tests/f.c": b"void test_a(void) { assert(a == a); }\n" * 25_000 + b"int main(void) {}\n",
    b"src/g.py": b"@a\n" * 200_000 + b"def test(): pass\n",
}
for _path, _content in _DEEP_SOURCES.items():
    for _turn, _pair in (("come", (b"", _content)), ("gone", (_content, b"x = 1\n"))):

        @case(f"review of the deep or the many that have {_turn} in {_path.decode()}")
        def _(path: bytes = _path, pair: tuple[bytes, bytes] = _pair) -> object:
            return review(Subject(make_contract(), (_file(path, *pair),), MiB))


@case("review many files with many names")
def _() -> object:
    files = tuple(_file(b"src/test_" + b"a_test." * 500 + b"%d" % n, b"", b"x\n") for n in range(500))
    return review(Subject(make_contract(), files, MiB))


# ---------------------------------------------------------------------------------------------------- documents


def _with(document: TaskContract | RunRequest, **fields: object) -> bytes:
    return msgspec.json.encode({**msgspec.to_builtins(document), **fields})


_JSON = {
    "nested": b"[" * MESSAGE,
    "nested-and-closed": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "a-key-again-and-again": b"{" + b'"a":1,' * (MESSAGE // 6) + b'"a":1}',
    "many-keys": b"{" + b",".join(b'"k%d":1' % n for n in range(60_000)) + b"}",
    "digits": b'{"a":' + b"9" * MESSAGE + b"}",
    "a-fraction": b'{"a":0.' + b"9" * MESSAGE + b"}",
    "escapes": b'{"a":"' + b"\\ud800" * (MESSAGE // 6) + b'"}',
    "wrong-entries": _with(make_contract(), acceptance_tests=[1] * 19_000),
    "wrong-paths": _with(make_contract(), allowed_paths=[["x" * 300]] * 19_000),
    "unknown-fields": _with(make_contract(), **{f"field{n}": n for n in range(19_000)}),
    "a-long-unknown-field": _with(make_contract(), **{"x" * MESSAGE: 1}),
    "a-long-id": _with(make_contract(), task_id="A" * MESSAGE),
    "a-long-requirement": _with(make_contract(), requirement_ids=["A" * MESSAGE]),
    "objects-in-objects": _with(make_contract(), inputs={"spec": [[[["x" * 1000] * 100] * 60]], "artifacts": []}),
}
for _name, _data in _JSON.items():

    @case(f"contract {_name}")
    def _(data: bytes = _data) -> None:
        refused(lambda: codec.decode(data, TaskContract))
        refused(lambda: strict_json.parse(data))
        message = Message(SUBMIT_SUBJECT, data, {"Content-Type": "application/cloudevents+json"})
        refused(lambda: submission(message, SUBMIT_SUBJECT, "publisher"))


# ---------------------------------------------------------------------------------------------------- the policy gate

_MARKS = "a" + "\u0301\u0327" * 4000
_DEEP = "/".join(["a"] * 2000)


def _tests(*commands: str) -> dict[str, object]:
    return {"acceptance_tests": tuple(AcceptanceTest(name="t", cmd=each, must_pass=True) for each in commands)}


_CONTRACTS: dict[str, dict[str, object]] = {
    "many-paths": {"allowed_paths": tuple(f"src/d{n}/file.py" for n in range(40_000))},
    "deep-paths": {"allowed_paths": tuple(f"{n}/{_DEEP}" for n in range(250))},
    "a-long-path": {"allowed_paths": ("a" * MESSAGE,)},
    "combining-marks-in-a-path": {"allowed_paths": tuple(f"src/{n}{_MARKS}"[:250] for n in range(3000))},
    "combining-marks-in-a-command": _tests("a" + "\u0301\u0327" * (MiB // 2)),
    "combining-marks-that-hide": _tests("\u0f73\u0f75" * 200_000),
    "a-long-command": _tests("a" * MESSAGE),
    "many-commands": _tests(*["pytest -q tests"] * 10_000),
    "wrappers": _tests(*["env " * 4000] * 400),
    "wrappers-of-git": _tests(*["env git push " * 1200] * 400),
    "brackets": _tests(*["grep -q " + "[" * 16_000 + " src/a.py"] * 400),
    "a-forbidden-run": {**_tests(*["git " * 4000] * 400), "forbidden_actions": tuple(f"git x{n}" for n in range(64))},
    "long-actions": {**_tests("git push"), "forbidden_actions": ("a" * (MESSAGE // 64),) * 64},
    "quoted-actions": {**_tests("git push"), "forbidden_actions": ("'" + "a" * (MESSAGE // 64) + "'",) * 64},
    "many-executor-commands": {"executor": Executor(kind="command", commands=("python a.py",) * 20_000)},
    "many-destructive": {"scope": Opened(destructive=tuple(f"rm {n}" for n in range(15_000)))},
    "a-long-spec": {"inputs": replace(make_contract().inputs, spec="x " * (MESSAGE // 2))},
}
for _name, _fields in _CONTRACTS.items():

    @case(f"policy {_name}")
    def _(fields: dict[str, object] = _fields) -> object:
        return judge_contract(make_context(RUN, "policy", POLICIES), replace(make_contract(), **fields))


@case("policy a request of many paths")
def _() -> None:
    judge_request(make_context(RUN, "policy", POLICIES), replace(make_request(), **_CONTRACTS["many-paths"]))


for _name in ("many-paths", "a-long-spec", "combining-marks-in-a-command", "many-commands"):

    @case(f"secrets of a contract with {_name}")
    def _(fields: dict[str, object] = _CONTRACTS[_name]) -> object:
        contract = replace(make_contract(), **fields)
        refused(lambda: check_document(contract, SCANNER))
        return redact_document(contract, SCANNER)


@case("secrets of a contract full of them")
def _() -> object:
    contract = make_contract(allowed_paths=tuple(f"src/ghp_{n:036}" for n in range(15_000)))
    refused(lambda: check_document(contract, SCANNER))
    return redact_document(contract, SCANNER)


@case("plan of overlapping shards")
def _() -> None:
    contract = make_contract(allowed_paths=tuple(f"src/d{n}" for n in range(15_000)))
    shards = tuple(
        replace(contract, task_id=f"{RUN}.plan.w{n:03}", allowed_paths=contract.allowed_paths[n::100]) for n in range(100)
    )
    plan = Plan(
        run_id=RUN,
        task_id=f"{RUN}.plan",
        producer=Agent(role="TECH_LEAD", agent_id="techlead-1"),
        contracts=shards,
        created_at="2026-01-01T00:00:00Z",
        batches=(tuple(shard.task_id for shard in shards),),
    )
    judge_plan(make_context(RUN, "plan", POLICIES), contract, plan)


@case("partition of many paths")
def _() -> object:
    files = [b"src/d%d/f.py" % n for n in range(40_000)]
    return partition(files, tuple(f"src/d{n}" for n in range(20_000)), 64)


@case("partition of deep paths")
def _() -> object:
    allowed = tuple(f"{n}/{_DEEP}" for n in range(250))
    return partition([each.encode() for each in allowed], allowed, 64)


# ---------------------------------------------------------------------------------------------------- the change


def _changes(paths: list[bytes]) -> tuple[TreeChange, ...]:
    return tuple(TreeChange(path, "000000", "100644", "0" * 40, "2" * 40, "A") for path in paths)


_PATHS = {
    "deep": [b"%d/" % n + b"a/" * 2000 + b"x" for n in range(300)],
    "one-very-deep": [b"a/" * MiB + b"x"],
    "many": [b"src/d%d/f%d.py" % (n % 500, n) for n in range(20_000)],
    "combining-marks": [b"src/" + f"{n}{_MARKS}".encode() for n in range(200)],
    "one-long-of-marks": [b"src/a" + ("\u0301\u0327" * MiB).encode()],
    "dots": [b"src/" + b". " * 100_000 + b"x%d" % n for n in range(20)],
    "backslashes": [b"src/gi" + b"\\" * 100_000 + b"%d" % n for n in range(20)],
    "almost-a-test": [b"test_" * 800 + b"%d" % n for n in range(200)],
}
for _name, _list in _PATHS.items():

    @case(f"change of paths {_name}")
    def _(paths: list[bytes] = _list) -> object:
        contract = make_contract(allowed_paths=("src", "b/" * 2000 + "x"), forbidden_actions=("edit secrets",))
        changes, context = _changes(paths), make_context(RUN, "diff", POLICIES).of_change(contract, _UNASKED)
        judge_changes(context, changes)
        judge_forbidden_edits(context, changes)
        return [(folded_path(path), path_fault(path), scope.covers(("src",), path)) for path in paths]


@case("secrets in a change of many files")
def _() -> object:
    changes, known = _changes([b"src/d%d/f%d.py" % (n % 500, n) for n in range(30_000)]), CleanContents()
    known.add(change.new_id for change in changes)
    return asyncio.run(secrets_brought_in(changes, _UNASKED, SCANNER, known))


_MANIFESTS = {
    "pyproject.toml": (
        b"a" + b".a" * 100_000 + b" = 1\n",
        (b".".join([b"a"] * 100) + b" = 1\n") * 1300,
        b"".join(b".".join([b"%d" % n] * 80) + b" = 1\n" for n in range(1000)),
        b"a = " + b"[" * 260_000,
        b"a = " + b"{a=" * 80_000,
        b"[a]\n" * 60_000,
        b"[[" + b".".join([b"a"] * 90) + b"]]\n" * 1400,
        b'a = """' + b"\\n" * 120_000 + b'"""',
    ),
    "package.json": (b"[" * 260_000, b'{"scripts":{' + b'"a":1,' * 40_000 + b'"a":1}}'),
    "setup.cfg": (b"[tool:pytest]\n" * 18_000, b"[tool:pytest]\n" + b" " * 250_000 + b"x", b"[" * 260_000),
    "pom.xml": (b"<excludes>" * 26_000, b"skip\n" * 50_000, b"".join(b"skip%d\n" % n for n in range(25_000))),
}
for _name, _contents in _MANIFESTS.items():

    @case(f"settings of tests in {_name}")
    def _(name: str = _name, contents: tuple[bytes, ...] = _contents) -> object:
        return [changed_settings(name.encode(), b"", content[:MOST_BYTES]) for content in contents]


@case("what commands read")
def _() -> object:
    reading = CommandReads()
    for words in ("env " * 100_000, "make " + "x " * 100_000, "a=b " * 100_000, "python " + "-x " * 100_000):
        reading.command(words.split())
    lines = (b"x: y\n\t" + b"; " * 60_000, b"x: x\n" * 40_000, b"include " + b"a*" * 100_000, b"x " * 120_000 + b":\n\ta\n" * 9)
    for content in (*lines, b"\\\n" * 130_000, b"a:" * 130_000, b"".join(b"%d: %d\n" % (n, n + 1) for n in range(20_000))):
        read_makefile(reading, content)
    read_scripts(reading, {f"{n}": f"npm run {n + 1} && " * 10 for n in range(5000)} | {"test": "npm run 0"})
    return reading.holds("x" * 4000)


@case("locks of deep paths")
def _() -> object:
    some = tuple(f"{n}/{_DEEP}" for n in range(250))
    return scope.overlap(some, tuple(f"x{path}" for path in some))


@case("a review that points to data")
def _() -> None:
    report = ReviewReport(
        run_id=RUN,
        task_id="t",
        reviewer=Agent(role="REVIEWER", agent_id="reviewer-1"),
        reviewed_at="2026-01-01T00:00:00Z",
        verdict="PASS",
        summary="data:" * (MESSAGE // 5),
        scope_check=ScopeCheck(passed=True, violations=("artifact:sha256:" * 100_000,)),
        evidence=(),
        produced_diff=False,
        tree=BASELINE_TREE,
        findings=(),
    )
    run = make_open_run(RUN, make_contract(), BASELINE, BASELINE_TREE)
    judge_review(make_context(RUN, "reviewer", POLICIES), report, run, run.workers())


# ---------------------------------------------------------------------------------------------------- replies

_REPLIES = {
    "empty-lines": b"\n" * REPLY,
    "short-lines": b"x\n" * (REPLY // 2),
    "blanks": (b" " * 298 + b"..\n") * 3000,
    "blanks-and-dots": b"`a.py`:\n```\n" + (b" " * 296 + b"...\n") * 3000 + b"```\n",
    "comment-signs": (b"```\n" + b"#" * 490 + b" \n```\n") * 2000,
    "words": (b"create " + b"a " * 240 + b"`x`\n```\n1\n```\n") * 2000,
    "following": (b"`a.py` with the" + b" following" * 47 + b"!:\n```\n1\n```\n") * 2000,
    "spaces-between": (b"create " + b" " * 480 + b"`x\n```\n1\n```\n") * 2000,
    "fences": b"```\n" * (REPLY // 4),
    "longer-fences": b"\n".join(b"`" * (3 + n) for n in range(1400)),
    "headers": b"--- file: a ---\n" * (REPLY // 16),
    "headers-of-nothing": b"--- file: a.py\n" * (REPLY // 15),
    "heredocs": b"cat > a.py << 'EOF'\n" * (REPLY // 20),
    "heredocs-in-a-block": b"```sh\n" + b"echo <<A\nA\n" * (REPLY // 12) + b"```\n",
    "words-of-mkdir": b"```\n" + (b"mkdir -p " + b"a" * 900 + b" <<\n") * 1100 + b"```\n",
    "a-long-line-of-moves": b"```sh\n" + b";\t" * (REPLY // 2 - 20) + b"cd\n```\n",
    "deep-names": b"".join(b"--- file: %d/%s ---\nx\n" % (n, b"/".join([b"a"] * 1900)) for n in range(250)),
}
for _name, _reply in _REPLIES.items():

    @case(f"reply of {_name}")
    def _(reply: bytes = _reply) -> object:
        try:
            return extract(reply[:REPLY])
        except ExtractionError as error:
            return error


# ---------------------------------------------------------------------------------------------------- outputs and texts

_OUTPUTS = {
    "tokens": b"ghp_%036d " % 1 * 20_000,
    "assignments": b"password=Abcdef12345 " * 40_000,
    "passwords": b"password" * (MiB // 8),
    "passwords-and-letters": (b"password" + b"a" * 39) * 20_000,
    "addresses": b"://" * (MiB // 3),
    "ssh-addresses": b"ssh://a" * (MiB // 7),
    "users": b"ssh://" + b"a" * MiB,
    "bearers": b"bearer  " * (MiB // 8),
    "authorizations": b"authorization:" * (MiB // 14),
    "tokens-of-three-parts": b"eyJ" * (MiB // 3),
    "begins": b"-----BEGIN " * (MiB // 11),
    "ends": b"-----BEGIN PRIVATE KEY-----" + b"A1" * 20 + b"-----END A " * (MiB // 11),
    "quotes": b'password="' + b"\\" * MiB,
    "seeds": b"SA" * (MiB // 2),
    "options": b"--token " * (MiB // 8),
}
for _name, _output in _OUTPUTS.items():

    @case(f"output of {_name}")
    def _(output: bytes = _output) -> object:
        return redact_output("stdout", output, SCANNER), redact_text(output.decode("latin-1"))


@case("addresses")
def _() -> object:
    for address in ("a" * MESSAGE, "a@" * MiB, "a:" * MiB, "ssh://" + "a." * MiB, "https://" + "%" * MiB, "a@b:" + "/" * MiB):
        refused(lambda address=address: parse_url(address, ("file", "https", "ssh")))  # type: ignore[misc]
        covers_address(address, ("https://forge.example/acme/",))
    return None


@case("words that ask for no sandbox")
def _() -> object:
    return [
        names_full_access(text) for text in ("--yol" * 200_000, "\u0f73\u0f75" * 200_000, "\ufdfa" * 100_000, "- " * 200_000)
    ]


@case("patterns of acceptance tests")
def _() -> object:
    pieces = ("[", "\\{", "{1", "\\", "[^]", ")*", "[[]")
    return [_matches_anything(piece * (200_000 // len(piece))) for piece in pieces]


def _seconds_of(function: Case) -> float | None:
    """In a forked child; None when it was ended at LIMIT, an error when it failed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        begun = time.process_time()
        function()
        os.write(writing, f"{time.process_time() - begun:.3f}".encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise RuntimeError("a case failed, see above")
    return float(said) if said else None


if __name__ == "__main__":
    first, step = (int(word) for word in sys.argv[1].split("/")) if sys.argv[1:] else (0, 1)
    for name in list(CASES)[first::step]:
        print(json.dumps([name, _seconds_of(CASES[name])]), flush=True)  # noqa: T201 - read by the test
