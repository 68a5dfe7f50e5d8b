"""Names of files and folders that usually hold credentials: for commands, prefixes, and visible host folders."""

from __future__ import annotations

from typing import Final

#: Where programs keep their credentials at the top of a home.
CREDENTIAL_PLACES: Final = frozenset(
    {".ssh", ".aws", ".azure", ".gnupg", ".kube", ".docker", ".netrc", ".npmrc", ".pypirc", ".git-credentials"}
)
#: The names of ssh's private keys.
SSH_KEYS: Final = frozenset({"id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"})
#: Files in which programs of many kinds keep them, of which a home has none in particular.
CREDENTIAL_FILES: Final = frozenset({".pgpass", ".env", ".vault-token", "credentials", "credentials.json"})

#: The same in a repository, as lines of a gitignore: what the delivered policy calls sacred, and names of which the content
#: decides. A folder ``.docker`` is where projects keep recipes of images.
IN_REPOSITORIES: Final[tuple[str, ...]] = (
    *sorted(CREDENTIAL_PLACES - {".docker"}),
    *(f"{name}*" for name in sorted(SSH_KEYS)),
    *(f"!{name}*.pub" for name in sorted(SSH_KEYS)),
    *sorted(CREDENTIAL_FILES),
    *(
        *("!credentials/", ".env.*", "!.env.example", "!.env.sample", "!.env.template", "!.env.dist", "!.env.schema"),
        "!.env.defaults",
    ),
    *("!.env.*.example", "!.env.*.sample", "!.env.*.template", "!.env.*.dist", "!.env.*.schema"),
    *("!.env.example.*", "!.env.sample.*", "!.env.template.*"),
    *(f"secrets.{each}" for each in ("json", "yaml", "yml", "toml", "ini", "cfg", "conf", "env", "properties", "xml", "txt")),
    *("secrets.csv", "secrets.enc", "secrets.gpg", "secrets.db", "!**/templates/secrets.yaml", "!**/templates/secrets.yml"),
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.pkcs12", "*.p8", "*.jks", "*.bks", "*.keystore", "!debug.keystore", "*.keytab"),
    *("*.ppk", "*.kdbx", "*.agekey", "*.nk", "*.creds", "*.tfstate", "*.tfstate.backup", "*.tfstate.*.backup"),
    *(
        *("*.tfvars", "*.tfvars.json", "_netrc", "pgpass.conf", ".my.cnf", ".mylogin.cnf", ".htpasswd", ".Renviron"),
        *(".s3cfg", ".boto"),
    ),
    *(".databrickscfg", ".vault_pass", ".vault_pass.txt", ".vault-pass", ".vault_password", ".vault-password", ".terraformrc"),
    *("terraform.rc", "credentials.tfrc.json", ".oci/", ".password-store/", "**/.config/gcloud/", "**/.docker/config.json"),
    *(".dockercfg", ".dockerconfigjson", "kubeconfig", "kubeconfig.yaml", "kubeconfig.yml", "kubeconfig.json", "*.kubeconfig"),
    *("application_default_credentials.json", "service-account.json", "service_account.json", "service-account-key.json"),
    *("service_account_key.json", "serviceAccountKey.json", "**/.cargo/credentials.toml"),
)
