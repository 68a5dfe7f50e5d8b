"""Artifacts of a Maven repository: what the log of the pull or the registry's checksums record, and what they do not."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from gatewright.contracts.inventory import InventoryTree
from gatewright.egress.record import EgressLog, EgressRecord
from gatewright.environment_inventory.reading import read_inventory
from gatewright.sandbox.environments import EGRESS_LOG

LICENCE = "<licenses><license><name>Apache-2.0</name></license></licenses>"
PARENT = "<parent><groupId>org.demo</groupId><artifactId>top</artifactId><version>1</version></parent>"
FILES = {
    "org/demo/top/1/top-1.pom": f"<project>{LICENCE}</project>",
    "org/demo/one/2.0/one-2.0.pom": f'<project xmlns="http://maven.apache.org/POM/4.0.0">{PARENT}</project>',
    "org/demo/one/2.0/one-2.0.jar": "one",
    "org/demo/one/2.0/one-2.0-tests.jar": "tests",
    "demo/one/2.0/one-2.0.jar": "of a group whose name ends another one",
    "org/demo/one/maven-metadata-central.xml": "<metadata/>",
}
JAR = "org/demo/one/2.0/one-2.0.jar"


def repository(prefix: Path, *, logged: bool) -> Path:
    """An environment with ``FILES`` and their checksums; with the log of its pull, unless it is the user's own."""
    log = EgressLog(prefix / EGRESS_LOG)
    top = prefix / "repository"
    for path, text in FILES.items():
        write(top, path, text)
        for own, content in ((path, text), (f"{path}.sha1", checksum(text))):
            if logged:
                host, place = "repo.example.org", f"/maven2/{own.replace('-central', '')}"
                digest = hashlib.sha256(content.encode()).hexdigest()
                log.append(EgressRecord("maven", host, "GET", place, "allowed", "", status=200, bytes=1, sha256=digest))
    return prefix


def write(top: Path, path: str, text: str) -> None:
    (top / path).parent.mkdir(parents=True, exist_ok=True)
    (top / path).write_text(text)
    (top / f"{path}.sha1").write_text(checksum(text))


def checksum(text: str) -> str:
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def state(found: InventoryTree) -> tuple[object, ...]:
    return found.ecosystem, found.unknown, found.altered, found.faults


@pytest.mark.parametrize("logged", [True, False])
def test_each_artifact_has_its_coordinates_digest_and_licence(tmp_path: Path, *, logged: bool) -> None:
    found = read_inventory(repository(tmp_path, logged=logged))
    assert state(found) == ("java", (), (), ())
    assert [each.purl for each in found.packages] == [
        f"pkg:maven/{each}" for each in ("demo/one@2.0", "org.demo/one@2.0", "org.demo/top@1")
    ]
    digest = f"sha256:{hashlib.sha256(b'one').hexdigest()}" if logged else f"sha1:{checksum('one')}"
    one = found.packages[1]
    assert (one.name, one.version, one.archive, one.licence) == ("org.demo:one", "2.0", digest, "Apache-2.0")
    assert one.source == ("repo.example.org" if logged else None)


def test_a_planted_jar_is_unknown_even_with_its_checksum(tmp_path: Path) -> None:
    repository(tmp_path, logged=True)
    write(tmp_path / "repository", "org/evil/evil/1/evil-1.jar", "evil")
    place = "repository/org/evil/evil/1/evil-1.jar"
    found = read_inventory(tmp_path)
    assert (found.unknown, found.altered) == ((place, f"{place}.sha1"), ())
    assert not [each for each in found.packages if "evil" in each.purl]


@pytest.mark.parametrize("logged", [True, False])
def test_a_changed_jar_is_altered(tmp_path: Path, *, logged: bool) -> None:
    repository(tmp_path, logged=logged)
    (tmp_path / "repository" / JAR).write_text("two")
    assert state(read_inventory(tmp_path)) == ("java", (), (f"repository/{JAR}",), ())


def test_a_jar_without_a_record_is_unknown(tmp_path: Path) -> None:
    repository(tmp_path, logged=False)
    (tmp_path / "repository" / f"{JAR}.sha1").unlink()
    assert state(read_inventory(tmp_path)) == ("java", (f"repository/{JAR}",), (), ())


def test_a_link_in_the_place_of_a_jar_is_unknown(tmp_path: Path) -> None:
    place = repository(tmp_path, logged=True) / "repository" / JAR
    place.unlink()
    place.symlink_to("/etc/passwd")
    assert f"repository/{JAR}" in read_inventory(tmp_path).unknown


def test_a_changed_log_records_nothing(tmp_path: Path) -> None:
    log = repository(tmp_path, logged=True) / EGRESS_LOG
    log.write_bytes(log.read_bytes().replace(b"repo.example.org", b"else.example.org", 1))
    assert read_inventory(tmp_path).unknown_files == 2 * len(FILES)
