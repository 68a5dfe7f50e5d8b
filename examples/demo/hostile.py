"""Five attacks by a hostile agent or repository on the demo's project, with the reason code that must refuse each."""

from __future__ import annotations

import secrets
import string
from dataclasses import dataclass
from pathlib import Path

ATTACKS = Path(__file__).resolve().parent / "attacks"
#: The path of the hostile codemod in the repository.
CODEMOD = "tools/tidy.py"


@dataclass(frozen=True)
class Attack:
    """``words`` are additional arguments of ``gatewright run``; ``code`` is the expected reason code."""

    title: str
    request: str
    allow: str
    words: tuple[str, ...]
    code: str


def attacks(folder: Path) -> tuple[Attack, ...]:
    """Return all five. Generate the fake credential at run time in ``folder``, so that it is never committed."""
    return (
        Attack(
            "a reply that rewrites a test",
            "Tidy up the sane lists extension",
            "markdown/extensions",
            ("--reply", str(ATTACKS / "rewrites_a_test.md")),
            "path_out_of_scope",
        ),
        Attack(
            "a patch that plants a link to a file of the host",
            "Ship the defaults with the package",
            "markdown",
            ("--patch", str(ATTACKS / "links_to_the_host.patch")),
            "symlink_refused",
        ),
        Attack(
            "a patch that brings in a cloud credential",
            "Upload the build",
            "markdown",
            ("--patch", str(_credential(folder))),
            "secret_found",
        ),
        Attack(
            "a patch on the CI pipeline, as its contract asks",
            "Tidy up the pipeline",
            ".github",
            ("--patch", str(ATTACKS / "edits_the_pipeline.patch")),
            "path_protected",
        ),
        Attack(
            "a codemod of the repository that phones home",
            "Tidy up",
            "markdown",
            ("--exec", f"python {CODEMOD}"),
            "executor_failed",
        ),
    )


def _credential(folder: Path) -> Path:
    key = "AKIA" + "".join(secrets.choice(string.ascii_uppercase + "234567") for _ in range(14)) + "42"
    patch = folder / "brings_a_credential.patch"
    patch.write_text(
        "diff --git a/markdown/upload.py b/markdown/upload.py\n"
        "new file mode 100644\n"
        "--- /dev/null\n"
        "+++ b/markdown/upload.py\n"
        "@@ -0,0 +1 @@\n"
        f'+ACCESS_KEY_ID = "{key}"\n'
    )
    return patch
