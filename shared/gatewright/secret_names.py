"""Names of files and folders that credentials lie in, whatever they hold: for commands, prefixes, and what a host is shown."""

from __future__ import annotations

from typing import Final

#: What programs keep their credentials in, at the top of a home.
CREDENTIAL_PLACES: Final = frozenset(
    {".ssh", ".aws", ".azure", ".gnupg", ".kube", ".docker", ".netrc", ".npmrc", ".pypirc", ".git-credentials"}
)
#: How the private keys of ssh are called.
SSH_KEYS: Final = frozenset({"id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"})
#: Files in which programs of many kinds keep them, of which a home has none in particular.
CREDENTIAL_FILES: Final = frozenset({".pgpass", ".env", ".vault-token", "credentials", "credentials.json"})

#: The same in a repository, as lines of a gitignore. A folder ``.docker`` is where projects keep recipes of images.
IN_REPOSITORIES: Final[tuple[str, ...]] = (
    *sorted(CREDENTIAL_PLACES - {".docker"}),
    *(f"{name}*" for name in sorted(SSH_KEYS)),
    *sorted(CREDENTIAL_FILES),
    *(".env.*", "!.env.example", "!.env.sample", ".htpasswd", "secrets.json", "secrets.y*ml", "secrets.toml"),
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.tfstate", "*.tfvars", "*.nk", "*.creds"),
)
