"""Addresses of a Maven repository: their parts are words of POMs of the pull."""

from __future__ import annotations

import pytest

from gatewright.egress.allowed import MavenAddresses
from gatewright.egress.policy import PUBLIC

CENTRAL = "https://repo.maven.apache.org/maven2"
POM = b"""<project><groupId>org.demo</groupId><artifactId>top</artifactId><version>1</version><dependencies><dependency>
<groupId>junit</groupId><artifactId>junit_${kind}</artifactId><version>[4.1,5)</version></dependency></dependencies>
<properties><kind>2.13</kind></properties></project>"""
ALLOWED = [
    "/org/demo/top/1/top-1.pom",
    "/org/demo/top/1/top-1.jar.sha1",
    "/org/demo/top/1/top-1-tests.jar",
    "/junit/junit_2.13/4.1/junit_2.13-4.1.jar",
    "/junit/junit_2.13/maven-metadata.xml",
]
REFUSED = [
    "/",
    "/org/demo/top/1/",
    "/org/demo/secret/1/secret-1.pom",
    "/org/secret/top/1/top-1.pom",
    "/org/demo/top/secret/top-secret.pom",
    "/org/demo/top/1/top-1-secret.jar",
    "/org/demo/top/1/secret-1.jar",
    "/org/demo/top/1/top-1.secret",
    "/org/demo/top/1/top-1.pom?data=secret",
    "/org//top/1/top-1.pom",
]


@pytest.mark.parametrize("path", ALLOWED)
def test_parts_that_a_pom_names_are_allowed(path: str) -> None:
    assert MavenAddresses(PUBLIC, (POM,)).refusal(CENTRAL + path) == ""


@pytest.mark.parametrize("path", REFUSED)
def test_other_parts_and_forms_are_refused(path: str) -> None:
    assert MavenAddresses(PUBLIC, (POM,)).refusal(CENTRAL + path)


def test_registries_of_other_languages_have_no_maven_addresses() -> None:
    assert MavenAddresses(PUBLIC, (POM,)).refusal(f"https://registry.npmjs.org{ALLOWED[0]}")


def test_a_pom_or_a_list_of_versions_adds_its_words() -> None:
    allowed = MavenAddresses(PUBLIC, (POM,))
    versions, later = f"{CENTRAL}{ALLOWED[-1]}", f"{CENTRAL}/junit/junit_2.13/4.9/junit_2.13-4.9.pom"
    assert [allowed.reads(each) for each in (versions, f"{CENTRAL}{ALLOWED[0]}", f"{CENTRAL}{ALLOWED[1]}")] == [
        True,
        True,
        False,
    ]
    assert "has '4.9'" in allowed.refusal(later)
    allowed.learn(versions, "text/xml", b"<versions><version>4.9</version></versions>")
    assert allowed.refusal(later) == ""
