"""``--env auto`` with a real Maven: what the baseline's POMs name is found by an offline mvn, and no plugin of theirs runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gatewright.app.environments.errors import NotPreparedError
from gatewright.app.environments.maven_install import maven_plans
from gatewright.app.environments.plan import Installer
from gatewright.app.environments.prepare import prepare_environments
from gatewright.egress.record import parse_egress_log
from gatewright.environment_inventory.reading import inventory_of
from gatewright.sandbox import SandboxLimits
from gatewright.sandbox.environments import EGRESS_LOG, Environments, ShownFolder
from tests.ecosystems.python.trees import Tree
from tests.ecosystems.test_java import FILES, POM, TEST
from tests.registries.servers import Files
from tests.sandbox.places import Folder, Run

COMMANDS = ("mvn -B test",)
LIMITS = SandboxLimits(wall_seconds=240)
ONE = {path: text for path, text in FILES.items() if not path.startswith(".mvn")}
JUNIT = (
    "<dependency><groupId>junit</groupId><artifactId>junit</artifactId><version>4.x</version><scope>test</scope></dependency>"
)
JUPITER = (
    "<dependency><groupId>org.junit.jupiter</groupId><artifactId>junit-jupiter-engine</artifactId>"
    "<version>5.9.2</version><scope>test</scope></dependency>"
)


def user_of(central: Files, folder: Path, *, source_builds: bool = False) -> Installer:
    """The user's own settings of Maven: a mirror with a password in a variable."""
    (folder / ".m2").mkdir(parents=True, exist_ok=True)
    mirror = f"<mirror><id>own</id><mirrorOf>*</mirrorOf><url>{central.address}/</url></mirror>"
    server = "<server><id>own</id><username>me</username><password>${env.WORD}</password></server>"
    text = f"<settings><servers>{server}</servers><mirrors>{mirror}</mirrors></settings>"
    (folder / ".m2/settings.xml").write_text(text)
    return Installer({"PATH": "/usr/bin:/bin", "HOME": str(folder), "WORD": "very-secret"}, source_builds)


async def prepared(tmp_path: Path, files: dict[str, str], installer: Installer) -> tuple[Path, list[str]]:
    notes: list[str] = []
    (prefix,) = await prepare_environments(tmp_path / "home", Tree(files), COMMANDS, installer, notes.append)
    return prefix, notes


async def tested(place: Folder, run: Run, prefix: Path, files: dict[str, str], *options: str) -> str:
    """Return the output of ``mvn test``, after which it is clear that it has succeeded."""
    for path, text in files.items():
        target = place.path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    owner = place.path.stat()
    for folder, _, _ in os.walk(place.path):
        os.chown(folder, owner.st_uid, owner.st_gid)
    shown = Environments((ShownFolder(prefix),))
    done = await run("mvn", "-B", *options, "test", limits=LIMITS, prefix=shown)
    assert done.exit_code == 0, done.stdout.decode()[-3000:]
    return done.stdout.decode()


@pytest.mark.parametrize("home", ["home", "Läden & Höfe"])
async def test_artifacts_of_a_pom_are_found_by_an_offline_maven(
    central: Files, tmp_path: Path, home: str, place: Folder, run: Run
) -> None:
    installer = user_of(central, tmp_path / "user")
    prefix, _ = await prepared(tmp_path / home, ONE, installer)
    assert "Tests run: 2, Failures: 0, Errors: 0, Skipped: 1" in await tested(place, run, prefix, ONE)
    logged = [each.path.lstrip("/") for each in parse_egress_log((prefix / EGRESS_LOG).read_bytes())]
    assert sorted(logged) == sorted(central.seen)
    assert b"very-secret" not in (prefix / EGRESS_LOG).read_bytes()
    (listed,) = inventory_of((prefix,)).trees
    assert (listed.ecosystem, listed.unknown, listed.altered, listed.faults) == ("java", (), (), ())
    purls = {each.purl for each in listed.packages if each.archive}
    jars = [each.relative_to(prefix / "repository").parts for each in prefix.glob("repository/**/*.jar")]
    assert {f"pkg:maven/{'.'.join(group)}/{name}@{version}" for *group, name, version, _ in jars} <= purls
    central.seen.clear()
    again, notes = await prepared(tmp_path / home, ONE, installer)
    assert (again, central.seen) == (prefix, [])
    assert notes == ["the environment from pom.xml exists: 0 requests to registries"]


async def test_modules_need_only_the_artifacts_of_others(central: Files, tmp_path: Path, place: Folder, run: Run) -> None:
    parent = "<parent><groupId>demo</groupId><artifactId>top</artifactId><version>${revision}</version></parent>"
    head = '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
    above = "<dependency><groupId>demo</groupId><artifactId>one</artifactId><version>${revision}</version></dependency>"
    files = {
        "pom.xml": POM.replace(
            "<artifactId>demo</artifactId><version>1</version>",
            "<artifactId>top</artifactId>"
            "<version>${revision}</version><packaging>pom</packaging>"
            "<modules><module>one</module><module>two</module></modules>",
        )
        .replace("<properties>", "<properties><revision>7</revision>")
        .replace(JUNIT, JUPITER),
        "one/pom.xml": f"{head}{parent}<artifactId>one</artifactId></project>",
        "two/pom.xml": f"{head}{parent}<artifactId>two</artifactId><dependencies>{above}</dependencies></project>",
        "one/src/main/java/demo/Add.java": ONE["src/main/java/demo/Add.java"],
        "two/src/test/java/demo/AddTest.java": TEST.replace("org.junit.Assert", "org.junit.jupiter.api.Assertions")
        .replace("org.junit.Ignore", "org.junit.jupiter.api.Disabled")
        .replace("@Ignore", "@Disabled")
        .replace("org.junit.Test", "org.junit.jupiter.api.Test"),
    }
    prefix, _ = await prepared(tmp_path, files, user_of(central, tmp_path / "user"))
    assert "Tests run: 2, Failures: 0, Errors: 0, Skipped: 1" in await tested(place, run, prefix, files)
    assert not list(prefix.glob("repository/demo/**/*.*"))
    assert not [each for each in central.seen if "surefire-junit4" in each]


ELSEWHERE = (
    "<build><plugins><plugin><artifactId>maven-dependency-plugin</artifactId>"
    "<configuration><outputFile>elsewhere</outputFile></configuration></plugin></plugins></build>"
)


@pytest.mark.parametrize(("left_out", "build", "runs"), [(JUNIT, "", False), ("", "", True), ("", ELSEWHERE, True)])
async def test_a_runner_is_pulled_only_for_the_projects_own_junit(
    central: Files, tmp_path: Path, left_out: str, build: str, runs: bool
) -> None:
    files = {"pom.xml": POM.replace(left_out, "").replace("</project>", f"{build}</project>")}
    await prepared(tmp_path, files, user_of(central, tmp_path / "user"))
    assert [each for each in central.seen if each.endswith(".jar") and "/junit/junit/" in f"/{each}"]
    assert bool([each for each in central.seen if "surefire-junit4" in each]) is runs


CHANGED = "junit/junit/4.x/junit-4.x.jar"


async def test_a_changed_byte_is_refused_and_nothing_stays(central: Files, tmp_path: Path) -> None:
    content = central.content(CHANGED)
    assert content is not None
    central.own = {f"{CHANGED}.sha1": central.content(f"{CHANGED}.sha1") or b"", CHANGED: content[:-1] + b"\1"}
    with pytest.raises(NotPreparedError, match=r"(?i)checksum validation failed"):
        await prepared(tmp_path, ONE, user_of(central, tmp_path / "user"))
    assert [each.suffix for each in (tmp_path / "home/environments").iterdir()] == [".lock"]


EXTENSION = (
    "<build><extensions><extension><groupId>evil</groupId><artifactId>evil</artifactId></extension></extensions></build>"
)
OF_PLUGIN = (
    "<build><plugins><plugin><artifactId>maven-dependency-plugin</artifactId><dependencies><dependency><groupId>evil</groupId>"
    "<artifactId>evil</artifactId><version>1</version></dependency></dependencies></plugin></plugins></build>"
)
AS_EXTENSION = (
    "<build><plugins><plugin><groupId>evil</groupId><artifactId>evil</artifactId><version>1</version>"
    "<extensions>${on}</extensions></plugin></plugins></build>"
)


@pytest.mark.parametrize("build", [EXTENSION, OF_PLUGIN, AS_EXTENSION])
async def test_code_that_maven_would_load_is_refused(central: Files, tmp_path: Path, build: str) -> None:
    files = {"pom.xml": POM.replace("</project>", f"{build}</project>")}
    with pytest.raises(NotPreparedError, match="loads code of a package into Maven; set GATEWRIGHT_SOURCE_BUILDS=true"):
        await prepared(tmp_path, files, user_of(central, tmp_path / "user"))
    assert central.seen == []


async def test_code_of_an_inherited_pom_is_refused_unseen(central: Files, tmp_path: Path) -> None:
    pom = "<project><modelVersion>4.0.0</modelVersion><groupId>far</groupId><artifactId>top</artifactId>"
    pom += f"<version>1</version><packaging>pom</packaging>{EXTENSION}</project>"
    central.own["far/top/1/top-1.pom"] = pom.encode()
    inherited = "<parent><groupId>far</groupId><artifactId>top</artifactId><version>1</version></parent>"
    files = {"pom.xml": POM.replace("<groupId>demo", f"{inherited}<groupId>demo", 1)}
    with pytest.raises(NotPreparedError, match=r"far/top/1/top-1: <extensions> loads code"):
        await prepared(tmp_path, files, user_of(central, tmp_path / "user"))
    assert not [each for each in central.seen if "evil" in each]


ODD = {
    "a DTD": '<!DOCTYPE p [<!ENTITY a "b">]><project>&a;</project>',
    "no XML": "<project>",
    "deep": "<a>" * 20_000 + "</a>" * 20_000,
    "a path as group": POM.replace("<groupId>demo", "<groupId>/etc", 1),
    "a path as version": POM.replace("<version>1<", "<version>../../x<", 1),
}


@pytest.mark.parametrize("kind", ODD)
async def test_an_odd_pom_is_refused_before_maven_starts(kind: str) -> None:
    with pytest.raises(NotPreparedError):
        await maven_plans(Tree({"pom.xml": ODD[kind]}), Installer({}), named=True)


async def test_a_change_of_a_comment_keeps_the_environment() -> None:
    plans = [await maven_plans(Tree({"pom.xml": each}), Installer({}), named=True) for each in (POM, POM + "<!-- changed -->")]
    assert len({plan.digest for (plan,) in plans}) == 1
