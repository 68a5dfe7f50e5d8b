"""SSH signatures (PROTOCOL.sshsig of OpenSSH), including those of passkeys: sign, parse and verify in this process."""

from gatewright.ssh_signatures.signatures import (
    check_key,
    fingerprint,
    page_of,
    public_blob,
    public_line,
    sign_ssh,
    signer_of,
    verify_ssh,
)

__all__ = ["check_key", "fingerprint", "page_of", "public_blob", "public_line", "sign_ssh", "signer_of", "verify_ssh"]
