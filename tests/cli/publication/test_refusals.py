"""What is refused when a run is published, each beside its honest form, which passes."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gatewright.app.publication.exceptions import needed_exceptions
from gatewright.app.publication.sinks import SINKS_FILE, SinkEntry
from gatewright.clock import SystemClock
from gatewright.errors import ConfigurationError, GatewrightError
from gatewright.evidence.signing import keys
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.store import static_export
from gatewright.evidence.writer import BundleWriter
from tests.cli.publication.conftest import TOKEN, Desk, WebStore
from tests.evidence.recorded_runs import MAKERS, make_success

OTHER = b"other bytes"


def seal(desk: Desk, name: str) -> str:
    """Seal the recorded run ``name`` in the home folder; return its id."""
    run = MAKERS[name]()
    signer = Signer(keys.load(keys.home_key(desk.home)))
    asyncio.run(BundleWriter(desk.home / "runs").seal(run.run, run.transitions, run.store, signer))
    return run.run_id


def copied(desk: Desk) -> Path:
    return Path(shutil.copytree(desk.bundle, desk.folder / "copy" / desk.bundle.name))


def writable(path: Path) -> Path:
    path.chmod(0o644)
    path.parent.chmod(0o755)
    return path


def test_a_run_that_failed_is_not_published(desk: Desk) -> None:
    failed = next(name for name in MAKERS if MAKERS[name]().run.status == "FAILED")
    assert desk.code(run=seal(desk, failed)) == "publication_run_failed"
    assert desk.written == {}


@pytest.mark.parametrize("file", ["manifest.json", "manifest.dsse.json"])
def test_an_unsealed_bundle_is_not_published(desk: Desk, file: str) -> None:
    folder = copied(desk)
    assert desk.publish(run=folder).exit_code == 0
    writable(folder / file).unlink()
    assert desk.code(run=folder) == "bundle_not_verified"


@pytest.mark.parametrize("file", ["patch.diff", "reports/test_report.json", "events.jsonl"])
def test_a_changed_bundle_is_not_published(desk: Desk, file: str) -> None:
    folder = copied(desk)
    path = writable(folder / file)
    path.write_bytes(path.read_bytes() + b"\n")
    assert desk.code(run=folder) == "bundle_not_verified"
    assert desk.written == {}


def test_a_bundle_signed_by_an_untrusted_key_is_not_published(desk: Desk) -> None:
    other = keys.create(desk.folder / "other.pem")
    public = keys.public_path(desk.folder / "other.pem")
    run, elsewhere = make_success(), desk.folder / "elsewhere"
    folder = Path(asyncio.run(BundleWriter(elsewhere).seal(run.run, run.transitions, run.store, Signer(other))).location)
    assert desk.code(run=folder) == "bundle_not_verified"
    assert desk.publish("--key", public, run=folder).exit_code == 0


def test_a_pruned_bundle_is_not_published(desk: Desk) -> None:
    assert desk.command("gc", "--keep-last", "0", "--keep-days", "0", "--yes").exit_code == 0
    assert desk.code() == "bundle_not_verified"


def test_a_class_that_the_sink_does_not_take_is_refused(desk: Desk) -> None:
    desk.sinks({"classifications": ["restricted"]})
    assert desk.code() == "classification_not_allowed"
    desk.sinks({"classifications": ["restricted", "internal"]})
    assert desk.publish().exit_code == 0


def test_an_unknown_sink_is_refused(desk: Desk) -> None:
    assert desk.code(to="another") == "sink_unknown"


@pytest.mark.parametrize(
    "name", ["absent.txt", "../../keys/gatekeeper.pem", "/etc/passwd", "./patch.diff", "manifest.json/../patch.diff", ""]
)
def test_a_file_beyond_the_manifest_is_refused(desk: Desk, name: str) -> None:
    assert desk.code("--file", name) == "publication_file_unknown"
    assert desk.publish("--file", "patch.diff").exit_code == 0


@pytest.mark.parametrize("prefix", ["..", "../up", "a/../../b", "/abs", "a//b", "a/", ".hidden", "a b", "a\\b", "%2e%2e"])
def test_a_prefix_that_leads_elsewhere_is_refused(desk: Desk, prefix: str) -> None:
    desk.sinks({"prefix": prefix})
    assert desk.publish().documents[0]["error"]["family"] == "infrastructure"
    desk.sinks({"prefix": "a/b-1"})
    assert desk.publish().exit_code == 0


@pytest.mark.parametrize("name", ["patch.diff", "patch.diff.meta.json", "patch.diff.dsse.json", "patch.diff.minisig"])
def test_other_bytes_in_the_sink_stay_and_are_refused(desk: Desk, name: str) -> None:
    place = desk.share / desk.bundle.name / name
    place.parent.mkdir()
    place.write_bytes(OTHER)
    assert desk.code() == "publication_conflict"
    assert place.read_bytes() == OTHER
    place.unlink()
    assert desk.publish().exit_code == 0


def test_a_record_of_another_signer_is_refused(desk: Desk) -> None:
    record = desk.share / str(desk.publish().documents[0]["name"])
    writable(record).write_bytes(OTHER)
    assert desk.code() == "publication_conflict"


def test_a_link_out_of_the_folder_is_refused(desk: Desk) -> None:
    outside = desk.folder / "outside"
    outside.mkdir()
    (desk.share / desk.bundle.name).symlink_to(outside)
    assert desk.code() == "store_denied"
    assert list(outside.iterdir()) == []


def test_a_folder_that_is_not_mounted_is_refused(desk: Desk) -> None:
    desk.sinks({"address": str(desk.folder / "absent")})
    assert desk.code() == "store_missing"


Answer = Callable[[str, str], "tuple[int, bytes] | None"]


def at_put(status: int, body: bytes = b"") -> Answer:
    return lambda method, path: (status, body) if method == "PUT" and not path.endswith("write-once") else None


def at_any(status: int, body: bytes = b"") -> Answer:
    return lambda _method, _path: (status, body)


def read_back(status: int, body: bytes) -> Answer:
    """Lie about what was stored: the first GET of a path is honest."""
    seen: set[str] = set()

    def answer(method: str, path: str) -> tuple[int, bytes] | None:
        first = path not in seen
        seen.add(path)
        return None if method == "PUT" or first else (status, body)

    return answer


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (at_put(500), "store_unreachable"),
        (at_put(503), "store_unreachable"),
        (at_put(302, b"http://127.0.0.1:1/"), "store_redirects"),
        (at_put(307, b"http://127.0.0.1:1/"), "store_redirects"),
        (at_put(401), "store_denied"),
        (at_put(403), "store_denied"),
        (at_put(405), "store_refused"),
        (at_put(0), "store_unreachable"),
        (at_put(412), "publication_conflict"),
        (at_any(301, b"http://127.0.0.1:1/"), "store_redirects"),
        (read_back(200, OTHER), "publication_not_stored"),
        (read_back(404, b""), "publication_not_stored"),
        (read_back(200, b"x" * (1 << 20)), "publication_not_stored"),
    ],
)
def test_each_failure_of_a_sink_has_its_code(desk: Desk, answer: Answer, code: str) -> None:
    desk.web.hook = answer
    assert desk.code("--file", "patch.diff", to="http") == code
    assert desk.command("publish", "--json").documents[0]["publications"] == []
    desk.web.hook, desk.web.objects = None, {}
    assert desk.publish("--file", "patch.diff", to="http").exit_code == 0


def test_a_sink_that_does_not_answer_is_given_up(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    release = threading.Event()
    monkeypatch.setattr(static_export, "_SECONDS", 0.05)
    desk.web.hook = lambda _method, _path: (500, str(release.wait(30)).encode())
    try:
        assert desk.code(to="http") == "store_unreachable"
    finally:
        release.set()


def test_a_sink_that_is_down_is_refused(desk: Desk) -> None:
    desk.sinks({"kind": "http", "address": "http://127.0.0.1:1/up"})
    assert desk.code(to="http") == "store_unreachable"


def test_a_sink_that_overwrites_is_refused_before_any_file(desk: Desk) -> None:
    desk.web.conditional = False
    assert desk.code(to="http") == "store_not_write_once"
    assert list(desk.web.objects) == ["/up/write-once"]
    desk.web.conditional = True
    assert desk.publish(to="http").exit_code == 0


def test_a_file_beyond_the_size_limit_is_refused(desk: Desk) -> None:
    size = (desk.bundle / "patch.diff").stat().st_size
    desk.sinks({"max_bytes": size - 1})
    assert desk.code("--file", "patch.diff") == "publication_too_large"
    desk.sinks({"max_bytes": size})
    assert desk.publish("--file", "patch.diff").exit_code == 0


def test_a_missing_credential_is_refused_before_any_request(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.sinks({"kind": "http", "credentials": {"environment": "TOKEN_OF_A_SINK"}})
    assert desk.code(to="http") == "sink_credentials_missing"
    assert desk.web.requests == []
    monkeypatch.setenv("TOKEN_OF_A_SINK", TOKEN)
    assert desk.publish(to="http").exit_code == 0


def test_a_credential_that_others_can_read_is_refused(desk: Desk) -> None:
    file = desk.folder / "token"
    file.write_text(TOKEN)
    file.chmod(0o644)
    desk.sinks({"kind": "http", "credentials": {"file": str(file)}})
    assert desk.code(to="http") == "key_permissions"
    assert desk.web.requests == []
    file.chmod(0o600)
    assert desk.publish(to="http").exit_code == 0


def test_a_key_that_also_signs_bundles_is_refused(desk: Desk) -> None:
    desk.sinks({"key": str(keys.home_key(desk.home))})
    assert desk.code() == "publication_key_shared"
    keys.create(desk.folder / "sink.pem")
    desk.sinks({"key": str(desk.folder / "sink.pem")})
    assert desk.publish().exit_code == 0


def test_a_key_that_others_can_read_is_refused(desk: Desk) -> None:
    desk.publish()
    (desk.home / "keys" / "publication.pem").chmod(0o644)
    assert desk.code() == "key_permissions"


def test_an_artifact_with_a_secret_is_refused(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    from gatewright.app.publication import artifacts

    honest = artifacts._file_content
    token = "ghp_" + "A1b2C3d4E5f6G7h8I9j0"
    monkeypatch.setattr(
        artifacts, "_file_content", lambda run, name: honest(run, name) + (token.encode() if name == "packet.md" else b"")
    )
    said = desk.publish("--file", "packet.md")
    assert said.documents[0]["error"]["code"] == "publication_secret_found"
    assert token not in said.out + said.err
    assert desk.publish("--file", "patch.diff").exit_code == 0
    assert not [name for name in desk.written if "packet" in name]


def test_a_file_that_changed_after_verification_is_refused(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    from gatewright.app.publication import artifacts

    honest = artifacts._file_content
    monkeypatch.setattr(
        artifacts, "_file_content", lambda run, name: honest(run, name) + (b"\n" if name == "patch.diff" else b"")
    )
    assert desk.code("--file", "patch.diff") == "bundle_not_verified"


# --- what is weaker needs an exception ---

END = "2999-01-01T00:00:00+00:00"
PAST = "2001-01-01T00:00:00+00:00"


def resolving(address: str) -> Callable[..., list[Any]]:
    return lambda *_words, **_more: [(2, 1, 6, "", (address, 80))]


def excepted(
    desk: Desk, rule: str, *, sink: str = "lab", until: str = END, key: str = "operator.pem", owner: str = "alice"
) -> Path:
    """Sign an exception by the command; return its file."""
    if not (desk.folder / key).exists():
        keys.create(desk.folder / key)
    file = desk.folder / f"{rule}-{sink}-{until[:4]}-{owner}-{key}.json"
    words = ("--except", rule, "--to", sink, "--owner", owner, "--reason", "the laboratory", "--until", until)
    said = desk.command("publish", *words, "--signing-key", desk.folder / key, "-o", file)
    assert said.exit_code == 0, said
    return file


def judged(desk: Desk, address: str, *files: Path) -> str:
    """Return the code by which the sink ``lab`` at ``address`` is refused with these exceptions; empty if it is not."""
    keys_ = [str(keys.public_path(desk.folder / "operator.pem"))] if (desk.folder / "operator.pem").exists() else []
    lists = {"exceptions": [str(each) for each in files], "exception_keys": keys_}
    desk.sinks({"kind": "http", "name": "lab", "address": address, **lists})
    sink = SINKS_FILE.load(desk.folder / "policies").policy.entry("lab")
    try:
        needed_exceptions(sink, sink.address, SystemClock().now())
    except GatewrightError as error:
        return error.reason
    return ""


@pytest.mark.parametrize(
    ("address", "ip", "rules"),
    [
        ("https://files.example/up", "93.184.216.34", ()),
        ("http://127.0.0.1:1/up", "127.0.0.1", ()),
        ("http://files.example/up", "93.184.216.34", ("sink_without_tls",)),
        ("https://files.example/up", "10.1.2.3", ("sink_private_address",)),
        ("https://files.example/up", "169.254.169.254", ("sink_private_address",)),
        ("https://files.example/up", "fd00::1", ("sink_private_address",)),
        ("https://files.example/up", "::ffff:10.0.0.1", ("sink_private_address",)),
        ("http://files.example/up", "10.1.2.3", ("sink_without_tls", "sink_private_address")),
    ],
)
def test_a_weaker_sink_needs_an_exception_for_each_rule(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, address: str, ip: str, rules: tuple[str, ...]
) -> None:
    monkeypatch.setattr("socket.getaddrinfo", resolving(ip))
    files = [excepted(desk, rule) for rule in rules]
    assert judged(desk, address, *files) == ""
    for number, rule in enumerate(rules):
        assert judged(desk, address, *files[:number]) == rule
        assert judged(desk, address, *files[:number], excepted(desk, rule, until=PAST)) == "exception_expired"
        assert judged(desk, address, *files[:number], excepted(desk, rule, sink="other")) == rule


def test_two_exceptions_may_end_together(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.getaddrinfo", resolving("93.184.216.34"))
    files = [excepted(desk, "sink_without_tls", owner=owner) for owner in ("alice", "bob")]
    assert judged(desk, "http://files.example", *files) == ""


def test_an_exception_of_an_unlisted_key_is_refused(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.getaddrinfo", resolving("93.184.216.34"))
    file = excepted(desk, "sink_without_tls")
    assert judged(desk, "http://files.example", file) == ""
    assert judged(desk, "http://files.example", excepted(desk, "sink_without_tls", key="another.pem")) == "untrusted_key"
    file.write_bytes(file.read_bytes()[:-3])
    assert judged(desk, "http://files.example", file) == "bad_envelope"
    assert judged(desk, "http://files.example", desk.folder / "absent") == "bad_exception"


def test_an_exception_needs_rule_owner_reason_and_end(desk: Desk) -> None:
    excepted(desk, "sink_without_tls")
    good = {"--except": "sink_without_tls", "--to": "lab", "--owner": "a", "--reason": "r", "--until": END}
    for name, value in (
        ("--except", "all"),
        ("--to", ""),
        ("--owner", ""),
        ("--reason", ""),
        ("--until", "soon"),
        ("--until", "2999-01-01"),
    ):
        words = [word for pair in (good | {name: value}).items() for word in pair]
        said = desk.command("publish", *words, "--signing-key", desk.folder / "operator.pem", "-o", "x.json", "--json")
        assert said.exit_code == 2, (name, said)
    assert not (desk.folder / "x.json").exists()


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "http", "address": "s3://bucket"},
        {"kind": "s3", "address": "https://host"},
        {"kind": "folder", "address": "share"},
        {"kind": "folder", "address": "/share", "credentials": {"environment": "A"}},
        {"kind": "folder", "ca_file": "/a"},
        {"kind": "http", "address": "https://user:word@host/"},
        {
            "kind": "http",
            "address": "https://host/",
            "credentials": {"access_key": {"environment": "A"}, "secret_key": {"environment": "B"}},
        },
        {"kind": "s3", "address": "s3://bucket", "credentials": {"environment": "A"}},
        {"kind": "http", "address": "https://host/", "classifications": []},
        {"kind": "http", "address": "https://host/", "classifications": ["public"]},
        {"kind": "http", "address": "https://host/", "password": "x"},
    ],
)
def test_a_policy_that_contradicts_itself_is_refused(desk: Desk, fields: dict[str, Any]) -> None:
    desk.sinks({"name": "lab", **fields})
    with pytest.raises(ConfigurationError):
        SINKS_FILE.load(desk.folder / "policies")


def test_the_doubles_speak_the_protocol(desk: Desk) -> None:
    """The web server refuses a second PUT only if it is conditional."""
    assert desk.web.answer("PUT", "/a", {}, b"1") == (201, b"")
    assert desk.web.answer("PUT", "/a", {"If-None-Match": "*"}, b"2") == (412, b"")
    assert WebStore(conditional=False).answer("GET", "/a", {}, b"") == (404, b"")
    assert isinstance(SinkEntry(name="a", kind="folder", address="/a", classifications=("internal",)), SinkEntry)
    assert json.loads((desk.folder / "policies" / "sinks.json").read_text())["version"] == "1"
