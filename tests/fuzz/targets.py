"""The places where hostile bytes come in, each as one step: make an input, feed it, check what must hold.

A target raises AssertionError when something was accepted that may not be, and lets every error through that is not one of the
refusals that the code under test documents: such an error is a crash.
"""

from __future__ import annotations

import asyncio
import random
import re
import shlex
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from gatewright.contracts import RunRequest, TaskContract, codec
from gatewright.contracts.vocabulary import Executor
from gatewright.contracts.vocabulary import Repository as RepositoryField
from gatewright.errors import CommandRefusedError, ExtractionError, MalformedError, PatchError
from gatewright.git.mirror import Mirrors
from gatewright.resources import policy_directory
from gatewright.services.gatekeeper.gates.change.candidate import judge_patch
from gatewright.services.gatekeeper.gates.change.secrets import SecretsCheck
from gatewright.services.gatekeeper.gates.commands.gate import check_command
from gatewright.services.gatekeeper.gates.contract.policy import judge_contract, judge_request
from gatewright.services.gatekeeper.policies.load import load
from gatewright.services.worker.reply.files import extract
from tests.factories import make_contract, make_request
from tests.fuzz.mutation import mutate, mutate_json
from tests.gatekeeper.contexts import make_context
from tests.gatekeeper.recorded import make_open_run

RUN = "run-0123456789"
Step = Callable[[random.Random], bool]

_PATCHES = (
    b"diff --git a/src/app.py b/src/app.py\n--- a/src/app.py\n+++ b/src/app.py\n@@ -1,3 +1,3 @@\n-one\n+two\n two\n three\n",
    b"diff --git a/src/new.py b/src/new.py\nnew file mode 100644\n--- /dev/null\n+++ b/src/new.py\n@@ -0,0 +1 @@\n+x\n",
    b"diff --git a/src/app.py b/src/moved.py\nsimilarity index 100%\nrename from src/app.py\nrename to src/moved.py\n",
    b"diff --git a/src/app.py b/src/copy.py\nsimilarity index 100%\ncopy from src/app.py\ncopy to src/copy.py\n",
    b"diff --git a/src/app.py b/src/app.py\nold mode 100644\nnew mode 100755\n",
    (
        b"diff --git a/src/l b/src/l\nnew file mode 120000\n--- /dev/null\n+++ b/src/l\n@@ -0,0 +1 @@\n+/etc/passwd\n"
        b"\\ No newline at end of file\n"
    ),
    b"diff --git a/README.md b/README.md\ndeleted file mode 100644\n--- a/README.md\n+++ /dev/null\n@@ -1 +0,0 @@\n-read me\n",
    (
        b'diff --git "a/src/t\\303\\244b\\t.py" "b/src/t\\303\\244b\\t.py"\nnew file mode 100644\n--- /dev/null\n'
        b'+++ "b/src/t\\303\\244b\\t.py"\n@@ -0,0 +1 @@\n+x\n'
    ),
)
_PATCH_WORDS = (
    b"src/",
    b"../",
    b"/etc/",
    b".git/",
    b".GIT",
    b"README.md",
    b"120000",
    b"160000",
    b"100755",
    b"b/",
    b"a/",
    b"/dev/null",
    b"\n",
    b"\0",
    b'"',
    b"\\",
)
_PLACES = (b"src/app.py", b"src/deep/inner.py", b"src/deep", b"link", b"link/", b"a/src", b"b/src", b"new file mode 100644\n")
_REPLIES = (
    b"Update file `src/app.py`:\n```python\nx = 1\n```\n",
    b"```python\n# src/app.py\nx = 1\n```\n",
    b"=== src/app.py ===\nx = 1\n",
    b"```sh\ncat > src/app.py <<'EOF'\nx = 1\nEOF\n```\n",
)
_REPLY_WORDS = (
    b"```",
    b"~~~",
    b"`src/a.py`",
    b"`../x`",
    b"`/etc/passwd`",
    b"<<'EOF'",
    b"EOF",
    b"cat > ",
    b"=== ",
    b"# ",
    b"\r\n",
    b"\0",
    b"...",
    b"\xff",
)
_COMMANDS = (
    "pytest -q tests",
    "python -m pytest -x",
    "python tools/a.py {paths}",
    "sed -i s/1/2/ src/a.py",
    "cp src/a src/b",
    "make test -j4",
    "go test ./...",
    "npm test -- --run",
    "ruff check --fix {paths}",
    "grep -q x src/a.py",
    "mypy --strict src",
    "cargo test -q",
)
_COMMAND_WORDS = (
    "-c",
    "-p",
    "-e",
    "--config",
    "--rootdir",
    "=",
    "/etc/passwd",
    "../x",
    "~",
    ";",
    "&&",
    "|",
    "$(id)",
    "`id`",
    "'",
    '"',
    "\\",
    "\n",
    "@f",
    "-",
    "--",
    "-i",
    "-m",
    "pip",
    "sh",
    "w /tmp/x",
    "e",
    "SHELL=x",
    "+nightly",
    "\u202e",
    "\x00",
    "..",
    "-qp",
    "-Ic",
    "s/a/b/e",
)
_OUTSIDE = re.compile(r"(?:^|[=:,])(?:/|~)|(?:^|[/=:,])\.\.(?:$|[/=:,])")


@dataclass
class Targets:
    """All targets over one repository. ``close`` it at the end."""

    folder: tempfile.TemporaryDirectory[str] = field(
        default_factory=lambda: tempfile.TemporaryDirectory(prefix="gatewright-fuzz-")
    )
    loop: asyncio.Runner = field(default_factory=asyncio.Runner)

    def __post_init__(self) -> None:
        self.policies = load(policy_directory())
        root = Path(self.folder.name)
        self.repository = root / "source"
        self.repository.mkdir()
        (self.repository / "src").mkdir()
        (self.repository / "src/app.py").write_text("one\ntwo\nthree\n")
        (self.repository / "src/deep").mkdir()
        (self.repository / "src/deep/inner.py").write_text("one\ntwo\nthree\n")
        (self.repository / "link").symlink_to("src")
        (self.repository / "README.md").write_text("read me\n")
        self._git("init", "--quiet", "--initial-branch=main")
        self._git("add", "--all")
        self._git("-c", "user.name=f", "-c", "user.email=f@localhost", "commit", "--quiet", "-m", "first")
        self.mirror = self.loop.run(Mirrors(root / "mirrors").open(str(self.repository)))
        self.commit = self.loop.run(self.mirror.resolve("main"))
        self.tree = self.loop.run(self.mirror.tree_of(self.commit))
        self.contract = make_contract(RUN, repository=RepositoryField(url=str(self.repository)))
        self.run = make_open_run(RUN, self.contract, self.commit, self.tree)

    def steps(self) -> dict[str, Step]:
        steps = {"patches": self.patch, "parts": self.part, "replies": self.reply}
        return {**steps, "contracts": self.intake, "commands": self.command}

    def close(self) -> None:
        self.loop.close()
        self.folder.cleanup()

    def patch(self, chance: random.Random) -> bool:
        """A patch: refused, or everything that it changes lies below ``src`` and is a plain file, by git's own word."""
        data = mutate(chance, chance.choice(_PATCHES), _PATCH_WORDS)
        if chance.random() < 0.3:
            data += mutate(chance, chance.choice(_PATCHES), _PATCH_WORDS)
        context = make_context(RUN, "diff", self.policies).of_change(self.contract, self.mirror)
        tree = self.loop.run(judge_patch(context, SecretsCheck(), data, self.run))
        if not context.report.clean:
            return False
        listed = self._git(
            "--git-dir", str(self.mirror.path), "diff-tree", "-r", "-z", "--raw", "--no-renames", self.tree, tree
        )
        fields = listed.split(b"\0")[:-1]
        for head, path in zip(fields[::2], fields[1::2], strict=True):
            assert path.startswith(b"src/") or path == b"src", (data, path)
            assert head.split()[1] in {b"100644", b"000000"}, (data, head)
            assert b".git" not in [part.lower() for part in path.split(b"/")], (data, path)
        return True

    def part(self, chance: random.Random) -> bool:
        """A patch: applied to the part of the index that it names, it leads where it leads applied to the whole."""
        data = b"".join(mutate(chance, chance.choice(_PATCHES), (*_PATCH_WORDS, *_PLACES)) for _ in range(chance.randint(1, 3)))
        by_part = self._applied(data, large=True)
        assert by_part == self._applied(data, large=False), data
        return by_part is not None

    def _applied(self, patch: bytes, *, large: bool) -> str | None:
        objects = self.mirror._objects
        objects._is_large = large
        try:
            return objects.apply(self.tree, patch)
        except PatchError:
            return None

    def reply(self, chance: random.Random) -> bool:
        """A model's reply: refused, or every file has a relative path without tricks."""
        data = mutate(chance, chance.choice(_REPLIES), _REPLY_WORDS)
        try:
            extraction = extract(data)
        except ExtractionError:
            return False
        for path, _ in extraction.files:
            assert path, data
            assert not path.startswith(("/", "~/")), data
            assert not {"", ".", "..", ".git"} & {part.lower() for part in path.split("/")}, (data, path)
        return True

    def intake(self, chance: random.Random) -> bool:
        """A contract or a request: malformed, or judged; what passes opens no more than plain paths."""
        base = (
            self.contract
            if chance.random() < 0.5
            else make_request(executor=Executor(kind="command", commands=("touch src/x",)))
        )
        data = mutate_json(chance, msgspec.to_builtins(base))
        if chance.random() < 0.3:
            data = mutate(chance, data, (b'"', b"{", b"}", b"null", b"1e999", b"\\u0000", b"\xff", b"[" * 50))
        context = make_context(RUN, "policy", self.policies)
        kind: type[TaskContract | RunRequest] = TaskContract if isinstance(base, TaskContract) else RunRequest
        try:
            document: TaskContract | RunRequest = codec.decode(data, kind)
        except MalformedError:
            return False
        if isinstance(document, TaskContract):
            judge_contract(context, document)
        else:
            judge_request(context, document)
        if not context.report.clean:
            return False
        for path in document.allowed_paths:
            assert path.strip("/"), data
            assert not {"", ".", "..", ".git"} & {part.lower() for part in path.removesuffix("/").split("/")}, (data, path)
            assert not set("*?[\\\n\0") & set(path), (data, path)
        return True

    def command(self, chance: random.Random) -> bool:
        """A command: refused, or a plain argv that names no shell syntax and no place outside."""
        words = shlex.split(chance.choice(_COMMANDS))
        for _ in range(chance.randint(0, 3)):
            words.insert(chance.randint(0, len(words)), chance.choice(_COMMAND_WORDS))
        text = " ".join(words)
        if chance.random() < 0.2:
            text = mutate(chance, text.encode(), tuple(word.encode() for word in _COMMAND_WORDS)).decode("utf-8", "replace")
        use = "acceptance" if chance.random() < 0.5 else "executor"
        try:
            rule = check_command(text, use, self.policies)  # type: ignore[arg-type]  # one of the two literals
        except CommandRefusedError:
            return False
        argv = shlex.split(text)
        assert not set(";|&<>`\n\0\r") & set(text), text
        assert "$(" not in text, text
        assert argv[0] not in {"sh", "bash", "env", "sudo", "pip"}, text
        operands = argv[len(rule.prefix) :]
        free = {"text", "sed"} & {rule.first}
        outside = [word for word in operands if _OUTSIDE.search(word)]
        assert len(outside) <= (1 if free else 0), (text, outside)
        return True

    def _git(self, *words: str) -> bytes:
        return subprocess.run(["git", *words], cwd=self.repository, check=True, capture_output=True).stdout
