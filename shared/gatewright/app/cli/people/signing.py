"""A person's signature: in this process with a PEM key, else by ``ssh-keygen``, which supports agents and tokens.

``approvals key`` prints a key in the format of rosters.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gatewright.app.cli.options import JsonOutput
from gatewright.app.cli.output import emit, note, reported, write_line
from gatewright.view.safe_text import printable

if TYPE_CHECKING:
    from gatewright.app.cli.context import CommandContext
    from gatewright.contracts import ApprovalDecision
    from gatewright.contracts.people.approvals import SignedDecision
    from gatewright.contracts.vocabulary import Document

Key = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Your SSH key (public if an agent holds it) or PEM key", show_default="~/.ssh"),
]
As = Annotated[str, typer.Option("--as", metavar="NAME", help="Your name on the roster", show_default="your account")]
Comment = Annotated[str, typer.Option(metavar="TEXT", help="Comment for the record")]
_PEM = b"-----BEGIN PRIVATE KEY-----"
#: Default keys, in order of preference.
_USUAL = ("id_ed25519", "id_ed25519_sk", "id_ecdsa", "id_ecdsa_sk", "id_rsa")
#: Seconds for a person to type a passphrase or touch a token.
_TOUCHING = 120.0


@reported
def roster_line(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="SSH key (private or public) or PEM key")],
    json_output: JsonOutput = False,
) -> None:
    """Print a key in the format of the roster, with its fingerprint."""
    from gatewright.ssh_signatures import fingerprint

    line = public_key(file)
    if json_output:
        emit({"key": line, "fingerprint": fingerprint(line)})
        return
    write_line(printable(line))
    note(fingerprint(line))


def usual_key(home: Path) -> Path:
    """Return the key that ssh itself prefers. Raises ConfigurationError (``key_unreadable``) if there is none."""
    from gatewright.errors import ConfigurationError

    for name in _USUAL:
        for path in (home / ".ssh" / name, home / ".ssh" / f"{name}.pub"):
            if path.is_file():
                return path
    raise ConfigurationError("no key was named (--key), and ~/.ssh has none", code="key_unreadable")


def owns_rule(place: CommandContext) -> bool:
    """Return whether the running stack asks the home's owner, by the home's own rule."""
    from gatewright.app.stack.own_policies import own_policies
    from gatewright.app.stack.state import read

    running = read(place.home) if place.bus is None else None
    return running is not None and running.policies == str(own_policies(place.home))


def signing_identity(place: CommandContext, person: str, key: Path | None) -> tuple[str, Path]:
    """Return the signer and the key, from the options of a command.

    Without ``key`` these are the owner and the home's key if the home's own rule asks, else the first key of ``~/.ssh``. Raises
    ConfigurationError (``key_unreadable``).
    """
    from gatewright.app.cli.user_git import user_name
    from gatewright.app.stack.own_policies import owner_name, write_own_policies

    if key is None and person in {"", owner_name()} and owns_rule(place):
        write_own_policies(place.home, place.key)  # The key may have been rotated since the stack started.
        return owner_name(), place.key
    return person or user_name(), key or usual_key(Path.home())


def sign_decision(decision: ApprovalDecision, key: Path) -> SignedDecision:
    """Sign a decision. ``key``: a private key, or the public one whose private half an agent has.

    Raises ConfigurationError (``key_unreadable``, ...).
    """
    from gatewright.rules.approvals import NAMESPACE

    return sign_document(decision, key, NAMESPACE)


def sign_document(document: Document, key: Path, namespace: str) -> SignedDecision:
    """Sign the canonical JSON of a document for ``namespace``. Raises as ``sign_decision``."""
    from gatewright.contracts import codec
    from gatewright.contracts.people.approvals import SignedDecision

    data = codec.encode(document)
    return SignedDecision(document=data.decode(), signature=_signature(data, key, namespace))


def public_key(key: Path) -> str:
    """Return the public half as a roster entry without comment. Raises ConfigurationError, MalformedError."""
    from gatewright.errors import ConfigurationError
    from gatewright.evidence.signing import keys
    from gatewright.ssh_signatures import check_key, public_line

    if _is_pem(key):
        return public_line(keys.load(key).secret)
    public = key if key.suffix == ".pub" else key.with_name(f"{key.name}.pub")
    try:
        line = " ".join(public.read_text("utf-8").split()[:2])
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{public} cannot be read: {error}", code="key_unreadable") from error
    check_key(line)
    return line


def _is_pem(key: Path) -> bool:
    from gatewright.errors import ConfigurationError

    try:
        with key.open("rb") as file:
            return file.read(len(_PEM)) == _PEM
    except OSError as error:
        raise ConfigurationError(f"{key} cannot be read: {error.strerror}", code="key_unreadable") from error


def _signature(data: bytes, key: Path, namespace: str) -> str:
    import subprocess

    from gatewright.errors import ConfigurationError
    from gatewright.evidence.signing import keys
    from gatewright.git.command import executable
    from gatewright.ssh_signatures import sign_ssh

    if _is_pem(key):
        return sign_ssh(keys.load(key).secret, namespace, data)
    argv = [executable("ssh-keygen"), "-Y", "sign", "-q", "-n", namespace, "-f", str(key)]
    try:
        finished = subprocess.run(argv, input=data, capture_output=True, timeout=_TOUCHING, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigurationError(
            f"ssh-keygen does not sign with {key}: {type(error).__name__}", code="key_unreadable"
        ) from error
    if finished.returncode != 0:
        words = finished.stderr.decode("utf-8", "replace").strip() or f"exit code {finished.returncode}"
        raise ConfigurationError(f"ssh-keygen does not sign with {key}: {words}", code="key_unreadable")
    return finished.stdout.decode("ascii", "replace")
