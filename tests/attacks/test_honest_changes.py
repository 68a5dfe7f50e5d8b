"""What honest people change, with names and contents that look like attacks: through the real gates, and let in."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from gatewright.contracts.vocabulary import ChangeKind, Scope
from gatewright.services.gatekeeper.gates.contract.policy import judge_contract
from gatewright.services.gatekeeper.policies.load import Policies
from tests.attacks.real_gate import RUN, RealGate, codes, open_gate
from tests.factories import make_contract
from tests.gatekeeper.contexts import make_context
from tests.git.repositories import MakeRepository

BODY = b"".join(b"def function_%d() -> int:\n    return %d\n\n" % (n, n) for n in range(40))
FILES = {
    "src/app.py": BODY,
    "src/crlf.py": BODY.replace(b"\n", b"\r\n"),
    "src/bom.py": b"\xef\xbb\xbf" + BODY,
    **{f"src/package/{number:03}.py": BODY + b"last = %d\n" % number for number in range(60)},
}
KEY = ed25519.Ed25519PrivateKey.generate()

Opened = Callable[..., AbstractAsyncContextManager[RealGate]]


@pytest.fixture
def opened(make_repository: MakeRepository, tmp_path: Path) -> Opened:
    return lambda **changes: open_gate(make_repository(files=FILES), tmp_path, **changes)


@pytest.fixture
async def gate(opened: Opened) -> AsyncIterator[RealGate]:
    async with opened() as opened_gate:
        yield opened_gate


def certificate() -> bytes:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "authority.example.org")])
    now = datetime(2026, 1, 1, tzinfo=UTC)
    builder = x509.CertificateBuilder(name, name, KEY.public_key(), 1, now, now + timedelta(days=365))
    return builder.sign(KEY, None).public_bytes(Encoding.PEM)


def moved(name: str, old: str, new: str) -> str:
    return name.replace(old, new)


def edited(content: bytes) -> bytes:
    return b"from src.parcel import everything\n" + content.replace(b"function_1", b"renamed_1")


CHANGES: dict[str, dict[str, bytes | None]] = {
    "source about secrets": {
        "src/secrets.py": b"RULES = ()\n",
        "src/secrets/rules.py": b"RULES = ()\n",
        "src/secrets.md": b"# Secrets\n",
        "src/credentials/store.py": b"class Store: ...\n",
        "src/credentials.py": b"class Credentials: ...\n",
    },
    "a certificate": {"src/certificates/authority.pem": certificate()},
    "a public key": {
        "src/keys/release.pem": KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        "src/keys/id_ed25519.pub": KEY.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) + b"\n",
    },
    "templates of an environment": {"src/.env.sample": b"TOKEN=\n", "src/.env.template": b"TOKEN=\n"},
    "a package that is renamed": {
        **{name: None for name in FILES if "/package/" in name},
        **{moved(name, "/package/", "/parcel/"): content for name, content in FILES.items() if "/package/" in name},
    },
    "a package that is renamed and edited": {
        **{name: None for name in FILES if "/package/" in name},
        **{moved(name, "/package/", "/parcel/"): edited(content) for name, content in FILES.items() if "/package/" in name},
    },
    "modules that are deleted": dict.fromkeys([name for name in FILES if "/package/" in name][:15]),
    "line ends of Windows": {"src/crlf.py": FILES["src/crlf.py"].replace(b"40", b"41") + b"x = 1\r\n"},
    "line ends that are made one kind": {"src/crlf.py": BODY},
    "a byte order mark that goes": {"src/bom.py": BODY},
    "names in other scripts": {"src/\u0434\u043e\u043c.md": b"x\n", "src/\u65b0.md": b"x\n", "src/caf\u00e9 2.md": b"x\n"},
    "a vendored folder of 2,000 files": {f"src/vendor/lib/{n % 50}/{n}.js": b"export const a = %d;\n" % n for n in range(2000)},
    "generated digests and fixtures": {
        "src/digests.txt": b"".join(b"sha256:%064x  file\n" % (n * 7919**9) for n in range(300)),
        "src/bytes.h": b"".join(b"0x%02x, " % (n % 256) for n in range(4096)),
    },
}


@pytest.mark.parametrize("what", CHANGES)
async def test_an_honest_change_is_let_in(what: str, gate: RealGate) -> None:
    report = await gate.judged(await gate.worked(gate.patch(CHANGES[what])))
    assert codes(report) == []


async def test_a_private_key_is_refused_by_its_content_whatever_its_name(gate: RealGate) -> None:
    key = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for name, code in {
        "src/server.pem": "path_protected",
        "src/notes.md": "secret_found",
        "src/key.txt": "secret_found",
    }.items():
        report = await gate.judged(await gate.worked(gate.patch({name: key})))
        assert codes(report) == [code], name
        (gate.repository.path / name).unlink()


@pytest.mark.parametrize("path", ["src/credentials", "src/secrets", "src/secrets.py", ".github/workflows"])
def test_a_contract_may_name_them(path: str, policies: Policies) -> None:
    context = make_context(RUN, "policy", policies)
    judge_contract(context, make_contract(RUN, allowed_paths=(path,)))
    assert "path_protected" not in [violation.code for violation in context.report.violations]


KINDS: tuple[ChangeKind, ...] = ("binary", "executable", "symlink", "mode_change", "gitattributes")


async def test_what_is_opened_by_name_is_let_in(opened: Opened) -> None:
    scope = Scope(allow=KINDS, allow_dependency_change=True, allow_protected_paths=("src",))
    async with opened(scope=scope) as gate:
        files: dict[str, bytes | None] = {
            "src/logo.png": b"\x89PNG\r\n\x1a\n\0\0\0",
            "src/.gitattributes": b"* text=auto\n",
            "src/pyproject.toml": b"[project]\n",
            "src/.npmrc": b"save-exact=true\n",
            "src/tests/test_app.py": b"def test(): assert True\n",
        }
        assert codes(await gate.judged(await gate.worked(gate.patch(files)))) == []
