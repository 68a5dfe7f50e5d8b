"""Known vulnerabilities of packages: which advisory affects which version, and what the gate refuses."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from gatewright.contracts.inventory import InventoryPackage
from gatewright.environment_inventory.advisories import Advisories
from gatewright.errors import ConfigurationError
from gatewright.services.gatekeeper.gates.reports.packages import KnownAdvisories, vulnerable_packages
from gatewright.services.gatekeeper.policies.packages import VulnerabilitiesPolicy
from tests.gatekeeper.gates.inventories import open_with_policy, package, verdict
from tests.git.repositories import MakeRepository


def record(ecosystem: str = "PyPI", name: str = "bad", **affected: object) -> dict[str, Any]:
    return {
        "id": "GHSA-1",
        "aliases": ["CVE-2026-1"],
        "affected": [{"package": {"ecosystem": ecosystem, "name": name}, **affected}],
        "database_specific": {"severity": "HIGH"},
    }


def semver(*events: tuple[str, str]) -> dict[str, Any]:
    return {"ranges": [{"type": "SEMVER", "events": [{kind: version} for kind, version in events]}]}


def write(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text(json.dumps(records))
    return path


def npm(name: str, version: str) -> InventoryPackage:
    return InventoryPackage(name=name, version=version, purl=f"pkg:npm/{name}@{version}")


@pytest.mark.parametrize(
    ("version", "affected"),
    [
        ("0.9.0", False),
        ("1.0.0-alpha", False),
        ("1.0.0", True),
        ("1.2.3", True),
        ("v1.2.3", True),
        ("1.3.0-rc.2", True),
        ("1.3.0-rc.10", True),
        ("1.3.0", False),
        ("1.10.0", False),
        ("2.0.0", True),
        ("2.1.0", True),
        ("2.1.1", False),
        ("3.0.0+build", False),
        ("of today", True),
    ],
)
def test_a_semantic_range_contains_its_versions(tmp_path: Path, version: str, affected: bool) -> None:
    events = (("fixed", "1.3.0"), ("introduced", "1.0.0"), ("introduced", "2.0.0"), ("last_affected", "2.1.0"))
    advisories = Advisories.read(write(tmp_path / "osv.json", record("npm", **semver(*events))))
    assert bool(advisories.about(npm("bad", version))) is affected


@pytest.mark.parametrize(
    ("first", "second"),
    [("1.0.0-alpha", "1.0.0-alpha.1"), ("1.0.0-alpha.1", "1.0.0-beta"), ("1.0.0-2", "1.0.0-10"), ("1.0.0-9", "1.0.0-a")],
)
def test_parts_of_a_release_candidate_have_their_order(tmp_path: Path, first: str, second: str) -> None:
    advisories = Advisories.read(write(tmp_path / "osv.json", record("npm", **semver(("introduced", "0"), ("fixed", second)))))
    assert advisories.about(npm("bad", first))
    assert not advisories.about(npm("bad", second))


@pytest.mark.parametrize(
    ("name", "version", "affected"),
    [("Bad.Name", "1.0", True), ("bad-name", "1.0", True), ("bad_name", "1.1", False), ("other", "1.0", False)],
)
def test_a_package_of_python_is_found_by_its_plain_name(tmp_path: Path, name: str, version: str, affected: bool) -> None:
    found = record(name="bad_name", versions=["1.0"], ranges=[{"type": "ECOSYSTEM", "events": [{"introduced": "0"}]}])
    advisories = Advisories.read(write(tmp_path / "osv.json", found))
    assert bool(advisories.about(InventoryPackage(name=name, version=version, purl=f"pkg:pypi/{name}@{version}"))) is affected


def test_an_advisory_of_another_ecosystem_or_withdrawn_does_not_count(tmp_path: Path) -> None:
    records = (record("npm", versions=["1.0"]), {**record(versions=["1.0"]), "withdrawn": "2026-01-01T00:00:00Z"})
    assert Advisories.read(write(tmp_path / "osv.json", *records)).about(package("bad", None)) == ()


@pytest.mark.parametrize("form", ["one", "list", "lines", "zip"])
def test_each_form_of_a_file_is_read(tmp_path: Path, form: str) -> None:
    found = {**record(versions=["1.0"]), "aliases": None, "published": "2026-01-01T00:00:00Z"}
    path = tmp_path / {"lines": "osv.jsonl", "zip": "all.zip"}.get(form, "osv.json")
    text = json.dumps(found)
    if form == "zip":
        with zipfile.ZipFile(path, "w") as packed:
            packed.writestr("GHSA-1.json", text)
            packed.writestr("README.md", "no record")
    else:
        path.write_text({"one": text, "list": f"[{text}]", "lines": f"{text}\n\n{text}\n"}[form])
    assert next(iter(Advisories.read(path).about(package("bad", None)))).ids == ("GHSA-1",)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"id": 1}', b"PK\x03\x04broken", b"\xff"])
def test_a_file_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "osv.json").write_bytes(content)
    with pytest.raises(ConfigurationError, match="has no advisories"):
        Advisories.read(tmp_path / "osv.json")


@pytest.mark.parametrize(
    ("fields", "severity", "refused"),
    [
        ({}, "LOW", True),
        ({"from_severity": "HIGH"}, "MODERATE", False),
        ({"from_severity": "HIGH"}, "HIGH", True),
        ({"from_severity": "CRITICAL"}, "HIGH", False),
        ({"from_severity": "CRITICAL"}, "unheard of", True),
        ({"from_severity": "CRITICAL"}, None, True),
        ({"except_ids": ("CVE-2026-1",)}, "CRITICAL", False),
        ({"except_ids": ("CVE-2026-2",)}, "CRITICAL", True),
    ],
)
def test_severity_and_exceptions_decide(tmp_path: Path, fields: dict[str, Any], severity: str | None, refused: bool) -> None:
    path = write(tmp_path / "osv.json", {**record(versions=["1.0"]), "database_specific": {"severity": severity}})
    policy = VulnerabilitiesPolicy(version="1", advisories=path, **fields)
    assert bool(list(vulnerable_packages([package("bad", None)], Advisories.read(path), policy))) is refused


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    known, path = KnownAdvisories(), write(tmp_path / "osv.json")
    first = known.current(path)
    assert known.current(path) is first
    write(path, record(versions=["1.0"]))
    again, digest = known.current(path)
    assert (again.count, digest != first[1]) == (1, True)


async def test_a_vulnerable_package_is_named_with_its_fix(make_repository: MakeRepository, tmp_path: Path) -> None:
    path = write(tmp_path / "osv.json", record(versions=["1.0"], **semver(("introduced", "0"), ("fixed", "1.1"))))
    policy = {"version": "1", "advisories": str(path)}
    async with open_with_policy(make_repository(), tmp_path / "inbox", "vulnerabilities.json", policy) as inbox:
        report = await verdict(inbox, package("good", None), package("bad", None))
    assert [(each.code, each.detail) for each in report.violations] == [
        ("vulnerability_found", "bad 1.0: GHSA-1 (CVE-2026-1), HIGH: fixed in 1.1")
    ]


@pytest.mark.parametrize("case", ["no file", "no inventory"])
async def test_what_cannot_be_compared_is_refused(make_repository: MakeRepository, tmp_path: Path, case: str) -> None:
    path = tmp_path / "osv.json"
    if case == "no inventory":
        write(path)
    policy = {"version": "1", "advisories": str(path)}
    async with open_with_policy(make_repository(), tmp_path / "inbox", "vulnerabilities.json", policy) as inbox:
        report = await verdict(inbox, package("good", None), listed=case != "no inventory")
    assert "vulnerabilities_unknown" in {each.code for each in report.violations}
