"""Credentials on their way into a repository, a bundle or the ledger, as a hostile or careless role would send them."""

from __future__ import annotations

import base64
import gzip
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gatewright.canary import new_canary
from gatewright.contracts.vocabulary import Scope
from gatewright.errors import ConfigurationError
from gatewright.secrets.redaction import Redaction, record_of
from gatewright.secrets.scanner import Hit, SecretScanner
from gatewright.secrets.selection import make_scanner
from gatewright.services.gatekeeper.gates.change.secrets import SecretsCheck
from tests.attacks import planted
from tests.attacks.real_gate import RealGate, artifact, codes, evidence, open_gate
from tests.git.repositories import MakeRepository

OLD_KEY = planted.STRIPE
FILES = {
    "src/app.py": b"one = 1\n",
    "src/fixture.py": f'KEY = "{OLD_KEY}"\n'.encode(),
    "src/other.py": b"two = 2\n",
    "src/gone.py": b"three = 3\n",
}


@pytest.fixture
async def gate(make_repository: MakeRepository, tmp_path: Path) -> AsyncIterator[RealGate]:
    scope = Scope(allow=("binary", "symlink"))
    async with open_gate(make_repository(files=FILES), tmp_path, scope=scope) as opened:
        yield opened


@pytest.mark.parametrize("kind", planted.ALL)
async def test_a_credential_in_a_patch_is_refused_and_never_quoted(kind: str, gate: RealGate) -> None:
    value = planted.ALL[kind]
    patch = gate.patch({"src/app.py": f"one = 1\ntoken = '''{value}'''\n".encode()})
    report = await gate.judged(await gate.worked(patch))
    assert codes(report) == ["secret_found"]
    (violation, *_) = report.violations
    assert (violation.path, violation.detail) == ("src/app.py", "line 2 looks like a secret")
    assert value not in repr(report)
    assert evidence(report)["secret_scanner"].startswith("patterns+kingfisher ")


async def test_the_integrated_gate_looks_again_although_the_diff_gate_was_passed(gate: RealGate) -> None:
    result = await gate.worked(gate.patch({"src/app.py": planted.GITHUB.encode()}))
    tree = await gate.compose(await gate.bus.get_artifact(result.git.patch))
    report = await gate.integrated(result, tree)
    assert codes(report) == ["secret_found"]


@pytest.mark.parametrize(
    "content",
    [
        base64.b64encode(f"token={planted.GITHUB}".encode()),
        base64.b64encode(base64.b64encode(f"token={planted.GITHUB}".encode())),
        b"\xff\xfe" + f"token={planted.GITHUB}".encode("utf-16-le"),
        f"{planted.GITHUB}  # gitleaks:allow kingfisher:ignore pragma: allowlist secret".encode(),
        b"\0\1\2" + planted.GITHUB.encode() + b"\0",
        b"x" * 300_000 + b" " + planted.GITHUB.encode(),
    ],
    ids=["base64", "base64_twice", "utf16", "marked_as_harmless", "binary", "far_down"],
)
async def test_a_credential_is_found_however_it_is_written(content: bytes, gate: RealGate) -> None:
    report = await gate.judged(await gate.worked(gate.patch({"src/new.txt": content})))
    assert codes(report) == ["secret_found"]


async def test_a_credential_in_a_file_name_is_refused_unshown(gate: RealGate) -> None:
    report = await gate.judged(await gate.worked(gate.patch({f"src/{planted.GITHUB}.txt": b"nothing\n"})))
    assert codes(report) == ["secret_found"]
    assert planted.GITHUB not in repr(report)


async def test_a_credential_in_a_name_is_not_shown_by_another_rule_either(gate: RealGate) -> None:
    report = await gate.judged(await gate.worked(gate.patch({f"elsewhere/{planted.GITHUB}.txt": b"nothing\n"})))
    assert codes(report) == ["path_out_of_scope"]
    assert planted.GITHUB not in repr(report)


async def test_a_credential_as_the_target_of_a_symbolic_link_is_refused(gate: RealGate) -> None:
    (gate.repository.path / "src/link").symlink_to(planted.GITHUB)
    report = await gate.judged(await gate.worked(gate.patch({})))
    assert "secret_found" in codes(report)


async def test_an_old_test_key_does_not_fail_nearby_changes(gate: RealGate) -> None:
    patch = gate.patch({"src/fixture.py": f'KEY: str = "{OLD_KEY}"\n'.encode()})
    assert codes(await gate.judged(await gate.worked(patch))) == []


async def test_a_leaked_key_can_be_moved_and_taken_out(gate: RealGate) -> None:
    moved = gate.patch({"src/fixture.py": None, "src/moved.py": FILES["src/fixture.py"]})
    assert codes(await gate.judged(await gate.worked(moved))) == []
    gate.repository.git("reset", "--quiet", "--hard")
    removed = gate.patch({"src/fixture.py": b'KEY = ""\n'})
    assert codes(await gate.judged(await gate.worked(removed))) == []


async def test_a_key_from_a_file_that_is_not_changed_is_refused_elsewhere(gate: RealGate) -> None:
    """It stands in the repository, but copying it about is this change's doing."""
    report = await gate.judged(await gate.worked(gate.patch({"src/app.py": FILES["src/fixture.py"]})))
    assert codes(report) == ["secret_found"]


async def test_a_scanner_that_cannot_be_loaded_refuses_every_change(gate: RealGate) -> None:
    class Broken:
        name = "broken"

        def find(self, data: bytes) -> Iterator[Hit]:
            raise ConfigurationError("the catalogue is gone")

        def prepare(self) -> None: ...

    broken = SecretsCheck(SecretScanner(Broken()))
    gate.gates = replace(gate.gates, secrets=broken)
    report = await gate.judged(await gate.worked(gate.patch({"src/app.py": b"harmless\n"})))
    assert (report.verdict, report.code) == ("FAIL", "configuration_invalid")


async def test_a_service_does_not_start_without_its_scanner(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "kingfisher_sdk", None)
    monkeypatch.delitem(sys.modules, "gatewright.secrets.kingfisher", raising=False)
    with pytest.raises(ConfigurationError, match="kingfisher-secret-scanner"):
        make_scanner("kingfisher", tmp_path)


async def test_what_was_taken_out_of_outputs_is_evidence_without_the_value(gate: RealGate) -> None:
    record = await gate.bus.put_artifact(b'[{"place":"stdout","rule":"github_token","count":1,"line":3}]')
    patch = gate.patch({"src/app.py": b"one = 2\n"})
    result = await gate.worked(patch, summary="used [redacted:github_token]", artifacts=(artifact("redactions", record),))
    report = await gate.diff(result)
    assert codes(report) == []
    assert evidence(report)["redacted /summary"] == "github_token"
    assert evidence(report)["redactions"] == record.rpartition(":")[2]


async def test_a_canary_in_a_patch_is_refused(gate: RealGate) -> None:
    token = new_canary()
    for content in (f"one = '{token}'\n".encode(), base64.b64encode(token.encode())):
        report = await gate.judged(await gate.worked(gate.patch({"src/app.py": content})))
        assert codes(report) == ["canary_leaked"]
        assert token not in repr(report)


@pytest.mark.parametrize("place", ["stdout", "work_report"])
async def test_a_canary_in_an_output_refuses_the_change_and_names_it(gate: RealGate, place: str) -> None:
    patch = gate.patch({"src/app.py": b"one = 2\n"})
    for rule, expected in (("github_token", []), ("canary", ["canary_leaked"])):
        record = await gate.bus.put_artifact(record_of([Redaction(place, rule, 1, 3)]))
        report = await gate.diff(await gate.worked(patch, artifacts=(artifact("redactions", record),)))
        assert codes(report) == expected
        assert [each.detail.partition(" ")[0] for each in report.violations] == [place] * len(expected)


async def test_a_canary_in_a_report_refuses_the_change(gate: RealGate) -> None:
    result = await gate.worked(gate.patch({"src/app.py": b"one = 2\n"}), summary="saw [redacted:canary]")
    report = await gate.diff(result)
    assert (codes(report), report.violations[0].rule) == (["canary_leaked"], "secrets.canary")


async def test_packed_content_is_not_looked_into(gate: RealGate) -> None:
    """What is not stopped: an archive hides its content. It is binary, so a contract has to open it by name."""
    packed = gzip.compress(planted.GITHUB.encode(), mtime=0)
    assert codes(await gate.judged(await gate.worked(gate.patch({"src/new.gz": packed})))) == []
