"""The user's own registries: read from the files of the tools, with their credentials kept from the box."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from pathlib import Path

import pytest

from gatewright.app.environments.errors import NotPreparedError
from gatewright.app.environments.plan import Installer
from gatewright.app.environments.pull import Registries
from gatewright.app.environments.registries import (
    NodeAddresses,
    UserIndexes,
    go_registries,
    node_registries,
    python_registries,
    rust_registries,
)
from gatewright.clock import SystemClock
from gatewright.egress.allowed import AnyAddress
from gatewright.egress.gateway import EgressGateway
from gatewright.egress.policy import EgressPolicy

WORD = "very-secret-word"


def installer(home: Path, files: Mapping[str, str] | None = None, **variables: str) -> Installer:
    """A user with ``files`` in the home, and no configuration of the host."""
    for path, text in (files or {}).items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(text)
    own = {"PATH": "/usr/bin:/bin", "HOME": str(home), "XDG_CONFIG_DIRS": str(home / "none")}
    return Installer({**own, **variables})


def hosts_of(registries: Registries) -> list[str]:
    return [source.hosts[0] for source in registries.sources]


def assert_no_secret(registries: Registries) -> None:
    """The credential is among the secrets alone."""
    assert any(WORD in each for each in registries.secrets.values())
    assert WORD not in str((registries.variables, registries.files, registries.sources, registries.shown))


def test_a_variable_of_pip_counts_more_than_its_file(tmp_path: Path) -> None:
    files = {".config/pip/pip.conf": "[global]\nindex-url = https://one.example/simple\n[install]\npre = true\n"}
    found = python_registries(installer(tmp_path, files))
    assert (hosts_of(found), found.variables["PIP_PRE"]) == (["one.example"], "true")
    found = python_registries(installer(tmp_path, files, PIP_INDEX_URL="https://two.example:8443/simple"))
    assert hosts_of(found) == ["two.example:8443"]


def test_authorities_that_the_user_trusts_check_registries(tmp_path: Path) -> None:
    bundle = tmp_path / "authorities.pem"
    bundle.write_bytes(
        EgressGateway(EgressPolicy(version="1"), AnyAddress(), print, clock=SystemClock(), secrets={}).certificate
    )
    found = python_registries(installer(tmp_path, PIP_CERT=str(bundle)))
    context = found.tls()
    assert context is not None
    assert ssl.create_default_context().cert_store_stats()["x509_ca"] + 1 == context.cert_store_stats()["x509_ca"]
    cargo, _ = rust_registries(installer(tmp_path, {".cargo/config.toml": f'[http]\ncainfo = "{bundle}"\n'}))
    assert cargo.trusted == str(bundle)


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_an_unusable_file_of_authorities_is_refused(tmp_path: Path, content: str | None) -> None:
    bundle = tmp_path / "authorities.pem"
    if content is not None:
        bundle.write_text(content)
    with pytest.raises(NotPreparedError, match="cannot be read"):
        python_registries(installer(tmp_path, PIP_CERT=str(bundle))).tls()


def test_the_public_index_of_python_brings_the_host_of_its_files(tmp_path: Path) -> None:
    (source,) = python_registries(installer(tmp_path, PIP_CONFIG_FILE="/dev/null")).sources
    assert source.hosts == ("pypi.org", "files.pythonhosted.org")
    assert (source.private, source.http, source.index) == (True, False, "/simple")


@pytest.mark.parametrize("place", ["address", "netrc"])
def test_a_password_of_an_index_is_kept_from_the_box(tmp_path: Path, place: str) -> None:
    files = {".netrc": f"machine own.example login me password {WORD}\n"} if place == "netrc" else {}
    user = f"me:{WORD}@" if place == "address" else ""
    found = python_registries(installer(tmp_path, files, PIP_INDEX_URL=f"https://{user}own.example/simple"))
    assert found.variables["PIP_INDEX_URL"] == "https://own.example/simple"
    assert_no_secret(found)


def test_a_refused_address_is_reported_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(NotPreparedError, match=r"own\.example.* no address of a registry") as refused:
        python_registries(installer(tmp_path, PIP_INDEX_URL=f"ftp://me:{WORD}@own.example/simple"))
    assert WORD not in refused.value.message


def test_local_packages_are_shown_and_a_home_is_not(tmp_path: Path) -> None:
    (tmp_path / "index/simple").mkdir(parents=True)
    (tmp_path / "index").chmod(0o755)
    own = installer(tmp_path, PIP_NO_INDEX="1", PIP_FIND_LINKS=f"file://{tmp_path}/index/simple {tmp_path}/absent")
    found = python_registries(own)
    assert (found.shown, found.sources) == ((tmp_path / "index",), ())
    (tmp_path / ".ssh").mkdir()
    with pytest.raises(NotPreparedError, match="cannot be shown"):
        python_registries(installer(tmp_path, PIP_NO_INDEX="1", PIP_FIND_LINKS=str(tmp_path)))


def test_constraints_of_pip_stay_valid_in_the_box(tmp_path: Path) -> None:
    own = installer(tmp_path, {"pins.txt": "needed<2\n"}, PIP_CONSTRAINT=str(tmp_path / "pins.txt"))
    found = python_registries(own)
    assert found.files[found.variables["PIP_CONSTRAINT"].rpartition("/")[2]] == b"needed<2\n"
    with pytest.raises(NotPreparedError, match="names the constraints"):
        python_registries(installer(tmp_path, PIP_CONSTRAINT=str(tmp_path / "absent.txt")))


def test_two_indexes_of_one_host_are_both_readable(tmp_path: Path) -> None:
    more = "https://own.example/two/simple"
    found = python_registries(installer(tmp_path, PIP_INDEX_URL="https://own.example/one/simple", PIP_EXTRA_INDEX_URL=more))
    allowed = UserIndexes(found.sources)
    page = f"{more}/needed/"
    assert allowed.refusal(page) == "" == allowed.refusal("https://own.example/one/simple/needed/")
    assert allowed.refusal("https://own.example/three/simple/needed/")
    archive = "https://own.example/two/files/needed-1.0.tar.gz"
    assert allowed.refusal(archive)
    allowed.learn(page, "text/html", b'<a href="../../files/needed-1.0.tar.gz">needed</a>')
    assert allowed.refusal(archive) == ""


async def test_a_token_of_npm_is_kept_from_the_box(tmp_path: Path) -> None:
    npmrc = "@own:registry=https://own.example/npm/\n//own.example/npm/:_authToken=${TOKEN}\nlegacy-peer-deps=true\n"
    settings = json.dumps({"@own:registry": "https://own.example/npm/", "legacy-peer-deps": True, "script-shell": "/bin/evil"})
    program = tmp_path / "npm"
    program.write_text(f"#!/bin/sh\necho '{settings}'\n")
    program.chmod(0o755)
    user = await node_registries(str(program), tmp_path, installer(tmp_path, {".npmrc": npmrc}, TOKEN=WORD))
    found = user.registries
    assert hosts_of(found) == ["registry.npmjs.org", "own.example"]
    assert list(found.secrets.values()) == [f"Bearer {WORD}"]
    assert_no_secret(found)
    written = found.files[".npmrc"].decode().splitlines()
    assert written == [
        "legacy-peer-deps=true",
        "registry=https://registry.npmjs.org/",
        "@own:registry=https://own.example/npm/",
    ]
    lock = b'"resolved": "https://registry.npmjs.org/needed/-/needed-1.0.0.tgz"\n  /other@2.0.0:\n'
    allowed = NodeAddresses(found.sources, user, lock)
    for path in ("needed/-/needed-1.0.0.tgz", "other/-/other-2.0.0.tgz"):
        assert allowed.refusal(f"https://own.example/npm/{path}") == ""
    assert allowed.refusal("https://own.example/npm/needed/-/needed-1.0.1.tgz")


def test_a_mirror_of_cargo_replaces_the_public_registry(tmp_path: Path) -> None:
    mirror = (
        '[source.crates-io]\nreplace-with = "own"\n[source.own]\nregistry = "sparse+https://own.example/index/"\n'
        '[registries.own]\nindex = "sparse+https://own.example/index/"\n[build]\nrustc-wrapper = "/bin/evil"\n'
    )
    files = {".cargo/config.toml": mirror, ".cargo/credentials.toml": f'[registries.own]\ntoken = "{WORD}"\n'}
    found, written = rust_registries(installer(tmp_path, files))
    assert hosts_of(found) == ["own.example"]
    assert_no_secret(found)
    assert 'registry" = "sparse+https://own.example/index/"' in written
    assert "evil" not in written
    assert hosts_of(rust_registries(installer(tmp_path / "other"))[0]) == ["index.crates.io"]


def test_proxies_of_go_lose_the_direct_connection(tmp_path: Path) -> None:
    settings = {"GOPROXY": f"https://me:{WORD}@own.example/go,direct", "GOSUMDB": "sum.example", "GOPRIVATE": "a.example"}
    found = go_registries(settings, installer(tmp_path))
    assert hosts_of(found) == ["own.example", "sum.example"]
    assert found.variables == {"GOPROXY": "https://own.example/go", "GOSUMDB": "sum.example", "GOPRIVATE": "a.example"}
    assert_no_secret(found)
    assert go_registries({"GOPROXY": "direct"}, installer(tmp_path)).variables["GOPROXY"] == "off"
