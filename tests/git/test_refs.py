"""What may be named: refs, ids and addresses."""

from __future__ import annotations

import pytest

from gatewright.errors import MalformedError
from gatewright.git.refs import (
    check_full_ref,
    check_landing_ref,
    check_object_id,
    check_ref,
    full_names,
    holds_credentials,
    parse_url,
)

PROTOCOLS = ("file", "https", "ssh")
HEX = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    "ref",
    [
        "-f",
        "--output=/tmp/x",
        "--upload-pack=touch x",
        "",
        "@",
        "a b",
        "a\nb",
        "a\tb",
        "a\x00b",
        "main~1",
        "main^",
        "main^{tree}",
        "main:README.md",
        "main@{1}",
        "a..b",
        "a...b",
        "a?b",
        "a*",
        "a[b",
        "a\\b",
        "/main",
        "main/",
        "a//b",
        ".hidden",
        "a/.hidden",
        "main.lock",
        "a.lock/b",
        "main.",
        "refs/heads/-/../x",
        "\udcff",
        "x" * 1025,
        ":/message",
        "refs/heads/*",
    ],
)
def test_option_or_revision_expression_is_no_ref(ref: str) -> None:
    with pytest.raises(MalformedError) as caught:
        check_ref(ref)
    assert caught.value.reason == "bad_ref"


@pytest.mark.parametrize("ref", ["HEAD", "main", "feature/x-1", "v1.0", "ünïcode", "refs/heads/main", "refs/pull/7/head", HEX])
def test_plain_name_is_a_ref(ref: str) -> None:
    assert check_ref(ref) == ref


def test_plus_sign_that_git_reads_as_force_stands_inside_a_full_name() -> None:
    assert full_names(check_ref("+main")) == ("refs/heads/+main", "refs/tags/+main")


def test_upper_case_object_id_means_the_same_object() -> None:
    assert check_ref(HEX.upper()) == HEX


@pytest.mark.parametrize("text", ["", "abc", HEX[:-1], HEX.upper(), HEX + "\n", "-" + HEX[1:], HEX + HEX])
def test_abbreviated_or_decorated_object_id_is_refused(text: str) -> None:
    with pytest.raises(MalformedError) as caught:
        check_object_id(text)
    assert caught.value.reason == "bad_object_id"


@pytest.mark.parametrize("text", ["main", "HEAD", HEX, "refs/", "refs/heads/a..b", "-refs/heads/main", "refs/heads/main\n"])
def test_short_or_broken_name_is_no_full_ref(text: str) -> None:
    with pytest.raises(MalformedError):
        check_full_ref(text)


@pytest.mark.parametrize("text", [f"refs/replace/{HEX}", "refs/stash", "refs/bisect/bad", "refs/worktree/x"])
def test_ref_that_changes_how_git_reads_a_repository_is_never_landed_on(text: str) -> None:
    with pytest.raises(MalformedError) as caught:
        check_landing_ref(text)
    assert caught.value.reason == "bad_ref"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "-oProxyCommand=touch x",
        "--upload-pack=touch x",
        "ext::sh -c touch% x",
        "fd::17",
        "/srv/x\n--upload-pack=y",
        "relative/path",
        "../up",
        "~/home",
        "ftp://example.org/x",
        "git://example.org/x",
        "http://example.org/x",
        "file://host/share",
        "file:///a%0Ab",
        "ssh://-oProxyCommand=x/y",
        "ssh://host/-x",
        "ssh://user@-host/y",
        "ssh://%2doProxyCommand/y",
        "ssh://-user@host/y",
        "ssh://host:99999/y",
        "-host:path",
        "host:-path",
        "-user@host:path",
        "user@-host:path",
        "https://example.org",
        "https://example.org/x?y=z",
        "https://example.org/x#y",
        "https:///x",
        "testgit::https://example.org/x",
    ],
)
def test_address_that_git_could_take_for_a_command_is_refused(url: str) -> None:
    with pytest.raises(MalformedError) as caught:
        parse_url(url, PROTOCOLS)
    assert caught.value.reason == "bad_url"


@pytest.mark.parametrize(
    "url", ["https://person:hunter2@example.org/x", "https://hunter2@example.org/x", "ssh://u:hunter2@h/x"]
)
def test_secret_in_an_address_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(MalformedError) as caught:
        parse_url(url, PROTOCOLS)
    assert "hunter2" not in caught.value.message


@pytest.mark.parametrize(
    ("url", "address", "protocol"),
    [
        ("/srv/git/my project/", "/srv/git/my project", "file"),
        ("file:///srv/git/my%20project", "/srv/git/my project", "file"),
        ("/srv/a::b", "/srv/a::b", "file"),
        ("https://example.org/team/project.git", "https://example.org/team/project.git", "https"),
        ("https://example.org:8443/x/", "https://example.org:8443/x", "https"),
        ("ssh://git@example.org:2222/team/x.git", "ssh://git@example.org:2222/team/x.git", "ssh"),
        ("git@example.org:team/x.git", "git@example.org:team/x.git", "ssh"),
    ],
)
def test_address_that_people_use_is_understood(url: str, address: str, protocol: str) -> None:
    source = parse_url(url, PROTOCOLS)
    assert (source.address, source.protocol) == (address, protocol)


def test_protocol_that_was_not_allowed_is_refused() -> None:
    with pytest.raises(MalformedError):
        parse_url("/srv/git/x", ("https",))


@pytest.mark.parametrize(
    ("url", "holds"),
    [
        ("https://me:pass@h/x", True),
        ("https://token@h/x", True),
        ("https://me:pa/ss@h/x", True),
        ("https://me:pass@h/x?y", True),
        ("ssh://git:pass@h/x", True),
        ("me:pass@h:x", True),
        ("HTTPS://me:pass@h/x", True),
        ("ssh://git@h:22/x", False),
        ("git@h:x", False),
        ("https://h:8443/@scope/x", False),
        ("https://[::1]:8443/@scope/x", False),
        ("/srv/a:b@c/x", False),
        ("file:///srv/a@b", False),
    ],
)
def test_a_possible_password_in_any_address_form_is_noticed(url: str, holds: bool) -> None:
    assert holds_credentials(url) == holds


@pytest.mark.parametrize(
    "url", ["https://me:hunter2@h/x?y", "https://me:hunter2@[h/x", "me:hunter2@h:x", "https://me:hun/ter2@h/x"]
)
def test_a_refused_address_does_not_show_the_password_that_it_holds(url: str) -> None:
    with pytest.raises(MalformedError) as caught:
        parse_url(url, ("https", "ssh"))
    assert caught.value.reason == "bad_url"
    assert "hun" not in caught.value.message
