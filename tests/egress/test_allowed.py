"""Which addresses of a registry's protocol are allowed, and what an index page adds to them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatewright.egress.allowed import IndexedAddresses
from gatewright.egress.policy import PUBLIC, EgressSource

OWN = EgressSource(name="own", hosts=("own.example",), private=True, credential="KEY", ecosystem="python", index="/+simple")
CDN = EgressSource(name="cdn", hosts=("cdn.example",))
SOURCES = (*PUBLIC, OWN, CDN)
PYPI, FILE = "https://pypi.org/simple/demo/", "https://files.pythonhosted.org/packages/aa/demo-1.0-py3-none-any.whl"


def page(*links: str, media_type: str = "text/html") -> tuple[str, bytes]:
    if "json" in media_type:
        return media_type, json.dumps({"files": [{"url": each} for each in links]}).encode()
    return media_type, "".join(f'<a data-x="a>b" href="{each}">f</a>\n' for each in links).encode()


REFUSED = [
    "https://pypi.org/simple/",
    "https://pypi.org/simple/demo",
    "https://pypi.org/simple/demo/?data=secret",
    "https://pypi.org/simple/Demo_x/",
    "https://pypi.org/simple/demo/secret/",
    "https://pypi.org/simple/-secret/",
    "https://pypi.org/simple/a--secret/",
    "https://pypi.org/pypi/demo/json",
    "https://pypi.org/search/",
    FILE,
    "https://files.pythonhosted.org/simple",
    "https://registry.npmjs.org/",
    "https://registry.npmjs.org/-/npm/v1/security/audits",
    "https://registry.npmjs.org/demo/-/demo-1.0.tgz",
    "https://registry.npmjs.org/demo/1.0.0",
    "https://registry.npmjs.org/demo?write=true",
    "https://registry.npmjs.org/a/b/c",
    "https://index.crates.io/se/cr/demo",
    "https://index.crates.io/config.json?x=y",
    "https://static.crates.io/crates/demo/1.0/download",
    "https://crates.io/api/v1/crates/demo/1.0/download",
    "https://proxy.golang.org/example.com/demo/@v/secret.zip",
    "https://proxy.golang.org/sumdb/sum.golang.org/lookup/example.com/demo@v1.0.0",
    "https://repo.maven.apache.org/maven2/a/b/1/b-1.jar",
    "https://cdn.example/file",
    "https://unknown.example/simple/demo/",
]


@pytest.mark.every_case
@pytest.mark.parametrize("url", REFUSED)
def test_an_address_that_no_index_names_is_refused(url: str) -> None:
    assert IndexedAddresses(SOURCES).refusal(url)


ASKED = {
    "https://pypi.org/simple/demo-two/": "Demo_Two",
    "https://own.example/+simple/demo/": "demo",
    "https://registry.npmjs.org/demo": "demo",
    "https://registry.npmjs.org/@scope%2Fdemo": "@scope/demo",
    "https://registry.npmjs.org/@scope/demo": "@scope/demo",
    "https://index.crates.io/de/mo/demo": "demo",
    "https://index.crates.io/3/a/abc": "abc",
    "https://index.crates.io/1/a": "a",
    "https://proxy.golang.org/example.com/demo/@v/list": "example.com/demo@v1.0.0",
    "https://proxy.golang.org/example.com/demo/@latest": "example.com/demo@v1.0.0",
    "https://proxy.golang.org/github.com/!big/demo/@v/v1.0.0+incompatible.mod": "github.com/Big/demo@v1.0.0+incompatible",
}


@pytest.mark.every_case
@pytest.mark.parametrize("url", sorted(ASKED))
def test_a_package_is_asked_for_by_its_name_only(url: str) -> None:
    assert IndexedAddresses(SOURCES).refusal(url) == ""
    assert IndexedAddresses(SOURCES, {ASKED[url]}).refusal(url) == ""
    assert "is no package of this pull" in IndexedAddresses(SOURCES, {"other", "demos", "example.com/demo2@v1"}).refusal(url)


def test_files_of_a_module_are_no_index() -> None:
    allowed = IndexedAddresses(SOURCES)
    assert allowed.reads("https://proxy.golang.org/example.com/demo/@v/list")
    assert not allowed.reads("https://proxy.golang.org/example.com/demo/@v/v1.0.0.zip")
    assert not allowed.reads(FILE)


@pytest.mark.parametrize("media_type", ["text/html", "application/vnd.pypi.simple.v1+json"])
def test_an_index_page_adds_the_files_it_names(media_type: str) -> None:
    allowed = IndexedAddresses(SOURCES)
    allowed.learn(PYPI, *page(f"{FILE}#sha256=00", "../other/demo.whl", media_type=media_type))
    assert [allowed.refusal(each) for each in (FILE, f"{FILE}.metadata", "https://pypi.org/simple/other/demo.whl")] == [""] * 3
    assert allowed.refusal(f"{FILE}.asc")


def test_a_page_names_files_of_public_sources_only() -> None:
    allowed = IndexedAddresses(SOURCES)
    own, cdn = "https://own.example/delete/all", "https://cdn.example/demo.whl"
    allowed.learn(PYPI, *page(own, cdn))
    assert allowed.refusal(own)
    assert allowed.refusal(cdn) == ""
    allowed.learn("https://own.example/+simple/demo/", *page(own))
    assert allowed.refusal(own) == ""


def test_a_known_host_opens_nothing_for_pages_of_others() -> None:
    allowed = IndexedAddresses(SOURCES)
    own = [f"https://own.example/files/{name}.whl" for name in ("first", "second", "third")]
    allowed.learn("https://own.example/+simple/demo/", *page(*own[:2]))
    assert [allowed.refusal(each) for each in own[:2]] == ["", ""]
    allowed.learn(PYPI, *page(*own))
    assert allowed.refusal(own[2])


HOSTS = ["https://cdn.example", "https://cdn.example:443", "https://CDN.example", "https://cdn.example.", "https://own.example"]
SITES = [*HOSTS, "http://cdn.example", "https://cdn.example:0443", "https://u@cdn.example", "https://cdn.example:444", "..", ""]
SEGMENTS = st.sampled_from(
    ["a", "demo-1.0+x.whl", "~b", ".", "..", ".c", "", "%41", "%2B", "d e", "f\u00e9", "?q=1", "_g.h", "\\i"]
)
LINKS = st.builds(
    lambda site, path: "/".join((site, *path)), st.sampled_from(SITES), st.lists(SEGMENTS, min_size=1, max_size=4)
)


@given(st.lists(LINKS, max_size=8))
def test_earlier_links_of_a_page_change_nothing_for_later_ones(links: list[str]) -> None:
    def named(*each: str) -> set[str]:
        allowed: Any = IndexedAddresses(SOURCES)
        allowed.learn(PYPI, *page(*each, media_type="application/json"))
        return set(allowed._linked)

    first = "https://cdn.example/x"
    assert named(first, *links) == named(first).union(*map(named, links))


def test_a_packument_adds_its_tarballs() -> None:
    allowed = IndexedAddresses(SOURCES)
    tarball = "https://registry.npmjs.org/demo/-/demo-1.0.0.tgz"
    packument = {"versions": {"1.0.0": {"dist": {"tarball": tarball}}}}
    allowed.learn("https://registry.npmjs.org/demo", "application/json", json.dumps(packument).encode())
    assert allowed.refusal(tarball) == ""
    assert allowed.refusal(tarball.replace("1.0.0", "2.0.0"))


CRATES = {
    "https://static.crates.io/crates": "https://static.crates.io/crates/demo/1.0.0/download",
    "https://static.crates.io/{prefix}/{crate}-{version}.crate": "https://static.crates.io/de/mo/demo-1.0.0.crate",
    "https://static.crates.io/{lowerprefix}/{sha256-checksum}": "https://static.crates.io/de/mo/00ff",
}


@pytest.mark.parametrize("place", sorted(CRATES))
def test_a_cargo_index_adds_its_crates(place: str) -> None:
    allowed = IndexedAddresses(SOURCES, {"demo"})
    config = "https://index.crates.io/config.json"
    assert allowed.refusal(config) == ""
    assert allowed.reads(config)
    allowed.learn(config, "application/json", json.dumps({"dl": place, "api": "https://crates.io"}).encode())
    line = json.dumps({"name": "demo", "vers": "1.0.0", "cksum": "00ff", "deps": []})
    allowed.learn("https://index.crates.io/de/mo/demo", "text/plain", line.encode())
    assert allowed.refusal(CRATES[place]) == ""
    assert allowed.refusal(CRATES[place] + "x")


def test_a_list_of_versions_adds_their_files() -> None:
    allowed = IndexedAddresses(SOURCES, {"example.com/demo@v1.0.0"})
    base = "https://proxy.golang.org/example.com/demo"
    assert allowed.refusal(f"{base}/@v/v1.1.0.zip")
    allowed.learn(f"{base}/@v/list", "text/plain", b"v1.0.0\nv1.1.0\n")
    allowed.learn(f"{base}/@latest", "application/json", b'{"Version": "v1.2.0"}')
    assert [allowed.refusal(f"{base}/@v/{each}") for each in ("v1.1.0.zip", "v1.2.0.mod")] == ["", ""]
    assert allowed.refusal(f"{base}/@v/v1.3.0.zip")


BROKEN: list[tuple[str, str, bytes]] = [
    (PYPI, "application/json", b"{"),
    (PYPI, "application/json", b"[1]"),
    (PYPI, "application/json", b'{"files": [{"name": 1}]}'),
    (PYPI, "text/html", b"<a href='" + b"x" * 5000),
    (PYPI, "text/html", b'<a href="http://[">x</a>'),
    ("https://registry.npmjs.org/demo", "application/json", b'{"versions": [1]}'),
    ("https://index.crates.io/config.json", "application/json", b"[]"),
    ("https://index.crates.io/de/mo/demo", "text/plain", b"\xff"),
    ("https://proxy.golang.org/example.com/demo/@latest", "application/json", b"[" * 5000),
    ("https://unknown.example/", "text/html", b""),
]


@pytest.mark.every_case
@pytest.mark.parametrize(("url", "media_type", "content"), BROKEN)
def test_a_broken_index_adds_nothing(url: str, media_type: str, content: bytes) -> None:
    allowed: Any = IndexedAddresses(SOURCES)
    allowed.learn(url, media_type, content)
    assert allowed._linked == set()


def test_a_linked_path_is_allowed_as_pip_encodes_it() -> None:
    allowed = IndexedAddresses(SOURCES)
    allowed.learn("https://own.example/+simple/demo/", *page("../../+f/a b/demo-1.0+x.whl"))
    for path in ("/+f/a%20b/demo-1.0+x.whl", "/%2Bf/a%20b/demo-1.0%2Bx.whl"):
        assert allowed.refusal(f"https://own.example{path}") == ""
    assert allowed.refusal("https://own.example/%2Bf/a%20b/demo-1.0%20x.whl")
