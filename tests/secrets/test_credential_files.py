"""Files of names that tell little: which contents are credentials, and which only look like them."""

from __future__ import annotations

import pytest

from gatewright.secrets.credential_files import MOST_BYTES, holds_credentials

BEGIN, END = "-----BEGIN", "-----END"
BODY = "MIIBVgIBADANBgkqhkiG9w0BAQEFAASCAUAwggE8\n"


def pem(kind: str) -> str:
    return f"{BEGIN} {kind}-----\n{BODY}{END} {kind}-----\n"


CREDENTIALS = [
    ("server.key", pem("PRIVATE KEY")),
    ("server.key", pem("ENCRYPTED PRIVATE KEY")),
    ("server.pem", pem("RSA PRIVATE KEY")),
    ("server.pem", pem("CERTIFICATE") + pem("EC PRIVATE KEY")),
    ("host.key", pem("OPENSSH PRIVATE KEY")),
    ("release.key", pem("PGP PRIVATE KEY BLOCK")),
    ("ta.key", pem("OpenVPN Static key V1")),
    ("a.key", "PuTTY-User-Key-File-3: ssh-ed25519\n"),
    ("age.key", "# created: today\nAGE-SECRET-KEY-1" + "Q" * 58 + "\n"),
    ("minisign.key", "untrusted comment: minisign encrypted secret key\nRWRTY0Iy\n"),
    ("config/master.key", "3f8a1c0d9b7e6f5a4c3b2a1908f7e6d5\n"),
    ("wg.key", "yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk=\n"),
    ("api.key", "hunter2hunter2\n"),
    ("raw.key", "\x00\x01\x02 raw"),
    (".env.production", "MODE=live\n"),
    (".env.local", "# words\nexport API_KEY='k3y'\n"),
    (".env.local", "DATABASE_URL=postgres://db.internal/x\n"),
    (".ENV.LOCAL", "A=b\n"),
    (".env.ts", "export const mode = 'live'\n"),
    ("prod.tfvars", 'region = "eu"\ndb_password = "correct horse"\n'),
    ("prod.auto.tfvars", 'db = { user = "a", password = "correct horse" }\n'),
    ("prod.tfvars.json", '{"api_token": "correct horse"}'),
    ("prod.tfvars", "private_key = <<EOF\nx\nEOF\n"),
    ("large.key", "words of a translation\n" * (MOST_BYTES // 20)),
]
NONE = [
    ("server.key", ""),
    ("server.key", pem("PUBLIC KEY")),
    ("ca.pem", pem("CERTIFICATE")),
    ("dh.pem", pem("DH PARAMETERS")),
    ("host.key", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB me@host\n"),
    ("minisign.key", "untrusted comment: minisign public key\nRWQ\n"),
    ("i18n/de.key", "greeting = Guten Tag\nfarewell = Auf Wiedersehen\n"),
    ("docs/legend.key", "A  a town\nB  a river\n"),
    ("slides.key", "PK\x03\x04 presentation"),
    ("notes.pem", "How certificates are made.\n"),
    (".env.test", "API_KEY=\nTOKEN=''\n"),
    (".env.production", "API_KEY=<your key>\nTOKEN=changeme\nURL=${URL}\nPASSWORD=xxxx\n# words\n"),
    (".env.ci", "API_KEY=your-key-here  # words\n"),
    ("prod.tfvars", 'region = "eu"\ninstance_type = "t3.micro"\n'),
    ("prod.tfvars", 'db_password = ""\napi_token = "changeme"\ntoken_ttl = "3600"\nsecret_name = "db"\n'),
    ("prod.tfvars.json", '{"region": "eu", "password": null}'),
]


@pytest.mark.parametrize(("path", "text"), CREDENTIALS)
def test_content_is_a_credential(path: str, text: str) -> None:
    assert holds_credentials(path.encode(), text.encode())


def test_key_in_binary_form_is_a_credential() -> None:
    assert holds_credentials(b"server.key", b"\x30\x82\xff\xfe")


@pytest.mark.parametrize(("path", "text"), NONE)
def test_content_is_no_credential(path: str, text: str) -> None:
    assert not holds_credentials(path.encode(), text.encode())
