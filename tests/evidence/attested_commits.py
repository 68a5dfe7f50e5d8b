"""Signed notes about commits of a real repository: the statements of a sealed bundle, with other subjects or predicates."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gatewright.evidence import layout
from gatewright.evidence.git_note import NOTES
from gatewright.evidence.signing.envelopes import Signer, payload_of
from gatewright.evidence.verification.commits import CommitsVerification, CommitVerdict, CommitVerifier, commits_of_range
from tests.git.repositories import Repository

Change = Callable[[dict[str, Any]], None]


@dataclass
class Attested:
    """A repository, and notes on its commits that ``signer`` signed."""

    repository: Repository
    bundles: dict[str, Path]
    signer: Signer
    counter: list[int] = field(default_factory=lambda: [0])

    def tree(self, commit: str) -> str:
        return self.repository.git("rev-parse", f"{commit}^{{tree}}").decode().strip()

    def commit(self) -> str:
        self.counter[0] += 1
        return self.repository.commit({"src/app.py": b"%d\n" % self.counter[0]})

    def envelopes(
        self,
        commit: str,
        *,
        tree: str | None = None,
        signer: Signer | None = None,
        run: str = "success",
        summary: Change = lambda _: None,
        checks: Change = lambda _: None,
    ) -> list[bytes]:
        """The signed statements of a run that landed ``commit``, after a change of either one."""
        signed = []
        for name, change in ((layout.ENVELOPE, summary), (layout.CHECKS, checks)):
            statement = json.loads(payload_of((self.bundles[run] / name).read_bytes()))
            statement["subject"] = [
                *(each for each in statement["subject"] if "sha256" in each["digest"]),
                {"digest": {"gitCommit": commit}, "name": "refs/heads/main"},
                {"digest": {"gitTree": tree or self.tree(commit)}, "name": "tree"},
            ]
            change(statement)
            signed.append((signer or self.signer).envelope(json.dumps(statement, sort_keys=True).encode()))
        return signed

    def note(self, commit: str, **how: Any) -> bytes:
        return b"".join(envelope + b"\n" for envelope in self.envelopes(commit, **how))

    def attach(self, commit: str, note: bytes) -> None:
        blob = self.repository.git("hash-object", "-w", "--stdin", stdin=note).decode().strip()
        self.repository.git("notes", f"--ref={NOTES}", "add", "--force", "-C", blob, commit)

    def land(self) -> str:
        """A new commit of a run, with its note."""
        commit = self.commit()
        self.attach(commit, self.note(commit))
        return commit

    def verifier(self, *signers: Signer, landed_in: str | None = None) -> CommitVerifier:
        return CommitVerifier(self.repository.checkout.objects, [each.public for each in signers or (self.signer,)], landed_in)

    def verdict(self, commit: str) -> CommitVerdict:
        (verdict,) = self.verifier().verify([commit]).verdicts
        return verdict

    def range(self, span: str) -> CommitsVerification:
        return self.verifier().verify(commits_of_range(self.repository.checkout, span))
