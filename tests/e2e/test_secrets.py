"""Credentials in a whole run: what the command line, the ledger, the store, the logs and the bundle keep of them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tests.attacks import planted
from tests.e2e.conftest import MakeProject
from tests.e2e.stack import Stack

#: In two halves: the repository holds no credential, its tools put one together.
HALVES = f"{planted.GITHUB[:10]!r} + {planted.GITHUB[10:]!r}".encode()
SAY = b"print('logging in with', " + HALVES + b")\nopen('src/a.py', 'a').write('edited = True\\n')\n"
PLANT = b"open('src/a.py', 'a').write('key = \"' + " + HALVES + b" + '\"\\n')\n"
#: The store keeps what a publisher gave it: another value than the one that is nowhere.
GIVEN = planted.STRIPE
TEST = b"import sys\nprint('using', " + HALVES + b", file=sys.stderr)\n"


def holders(folder: Path, value: str) -> list[str]:
    """Every file of a folder that holds the value. Of the stack's home: NATS' own store, logs, mirrors, workspaces, bundles."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return [str(path.relative_to(folder)) for path in files if value.encode() in path.read_bytes()]


def file_of(bundle: Path, digest: str) -> bytes:
    """The file of a bundle that has this digest, wherever it lies."""
    contents = (path.read_bytes() for path in bundle.rglob("*") if path.is_file())
    return next(content for content in contents if hashlib.sha256(content).hexdigest() == digest)


def test_a_secret_in_outputs_is_nowhere_and_its_removal_is_evidence(stack: Stack, make_project: MakeProject) -> None:
    project = make_project(tools__say=SAY, tools__test=TEST)
    words = ("--allow", "src", "--exec", "python tools/say.py", "--test", "python tools/test.py")
    code, result = stack.run(project, *words)
    assert (code, result["status"]) == (0, "SUCCESS"), result
    bundle = Path(result["bundle"])
    (stdout,) = bundle.glob("results/*/stdout.log")
    assert stdout.read_bytes() == b"logging in with [redacted:github_token]\n"
    assert (bundle / "tests/stderr.log").read_bytes() == b"using [redacted:github_token]\n"
    for gate, place in (("diff", "stdout"), ("tests", "test-1.stderr")):
        (report,) = bundle.glob(f"reports/gates/*-{gate}-*.json")
        seen = {item["name"]: item["digest"] for item in json.loads(report.read_bytes())["evidence"]}
        (record,) = json.loads(file_of(bundle, seen["redactions"]))
        assert (record["rule"], record["count"], record["line"]) == ("github_token", 1, 1)
        assert record["place"].rpartition(".")[2] == place.rpartition(".")[2]
    assert stack.command("verify", result["bundle"]).returncode == 0
    assert holders(stack.home, planted.GITHUB) == []


def test_a_secret_in_a_patch_is_refused_and_never_stored(stack: Stack, make_project: MakeProject) -> None:
    project = make_project(tools__plant=PLANT)
    words = ("--allow", "src", "--exec", "python tools/plant.py", "--test", "python tools/check.py 0")
    code, result = stack.run(project, *words)
    assert (code, result["failure"]["code"]) == (1, "secret_found")
    assert "src/a.py:2" in result["failure"]["message"]
    assert stack.command("verify", result["bundle"]).returncode == 0
    # Objects of git are compressed; the bundle, the store and the logs are not.
    assert holders(stack.home, planted.GITHUB) == []


LEAKS = {
    "diff": ("tools/copy.py", "tools/check.py 0", "src/a.py"),
    "tests": ("tools/edit.py", "tools/print.py", "test-1.stderr"),
    "log": ("tools/talk.py", "tools/check.py 0", "stdout"),
}


@pytest.mark.parametrize("leak", LEAKS)
def test_a_canary_that_leaves_its_box_refuses_the_change(stack: Stack, make_project: MakeProject, leak: str) -> None:
    edit = b"open('src/a.py', 'a').write('edited = True\\n')\n"
    read = b"import base64\ntoken = open('/etc/box-canary', 'rb').read()\n"
    project = make_project(
        tools__copy=read + b"open('src/a.py', 'a').write(f'key = {base64.b64encode(token)}\\n')\n",
        tools__edit=edit,
        tools__print=b"import sys\nprint(open('/etc/box-canary').read()[::-1], file=sys.stderr)\n",
        tools__talk=read + edit + b"print(token.hex(), len(token))\n",
    )
    make, test, place = LEAKS[leak]
    code, result = stack.run(project, "--allow", "src", "--exec", f"python {make}", "--test", f"python {test}")
    assert (code, result["failure"]["code"]) == (1, "canary_leaked"), result
    assert place in result["failure"]["message"]
    assert stack.command("verify", result["bundle"]).returncode == 0
    assert holders(Path(result["bundle"]), "gwcanary") == []


@pytest.mark.parametrize(
    ("option", "given"),
    [
        pytest.param(
            "--patch",
            f'--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1,2 @@\n a = 1\n+key = "{GIVEN}"\n',
            marks=pytest.mark.long,
        ),
        ("--reply", f'### `src/a.py`\n\n```python\na = 1\nkey = "{GIVEN}"\n```\n'),
    ],
    ids=["patch", "reply"],
)
def test_a_bundle_that_omits_a_secret_input_verifies(
    stack: Stack, make_project: MakeProject, tmp_path: Path, option: str, given: str
) -> None:
    project = make_project()
    (tmp_path / "given").write_text(given, encoding="utf-8")
    words = ("--allow", "src", option, str(tmp_path / "given"), "--test", "python tools/check.py 0")
    code, result = stack.run(project, *words)
    assert (code, result["failure"]["code"]) == (1, "secret_found")
    bundle = Path(result["bundle"])
    assert holders(bundle, GIVEN) == []
    report = json.loads((bundle / "reports/evidence_report.json").read_bytes())
    uri = f"artifact:sha256:{hashlib.sha256(given.encode()).hexdigest()}"
    assert uri in report["withheld"]
    assert any(uri in line and "is withheld" in line for line in report["missing"])
    verified = json.loads(stack.command("verify", str(bundle), "--json").stdout)
    assert (verified["ok"], verified["findings"]) == (True, [])
    assert any(words.startswith(uri) for words in verified["unchecked"])
    assert stack.command("replay", str(bundle)).returncode == 0
