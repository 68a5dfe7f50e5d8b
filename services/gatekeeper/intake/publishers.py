"""Who speaks to the gatekeeper from outside, and whether that publisher may say what it says. Limits stand elsewhere.

The subject tells who it is, since the server lets every identity publish under its own subjects only. What a document claims
about its sender counts for nothing here.
"""

from __future__ import annotations

import re

from gatewright.bus.identities import DEFAULT_PUBLISHER
from gatewright.bus.port import Message
from gatewright.bus.topology import ABORT_SUBJECT, CONTRACT_SUBJECT, QUESTION_SUBJECTS, REQUEST_SUBJECT, SUBMIT_SUBJECT
from gatewright.bus.topology import TASK_CLASSES as CLASSES
from gatewright.contracts import RunRequest, TaskContract
from gatewright.errors import DeniedError, Fault, MalformedError
from gatewright.git.access.repository_patterns import covers_address, ref_covered
from gatewright.git.refs import holds_credentials
from gatewright.rules.landing import landing_ref
from gatewright.run.state import Run
from gatewright.services.gatekeeper.policies.publishers import Publisher, Publishers, SubmissionKind

_SUBJECTS = (SUBMIT_SUBJECT, *QUESTION_SUBJECTS, REQUEST_SUBJECT, CONTRACT_SUBJECT, ABORT_SUBJECT)
#: Headers of one message, all together: CloudEvents keep their attributes there, and a document nothing.
MOST_HEADERS, MOST_HEADER_BYTES = 128, 16_384
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}\Z")  # noqa: TID251 - linear: anchored, and no repetition can give to the next


def speaker(subject: str) -> tuple[str, str]:
    """The plain subject, and the publisher whose name is its last token: ``gw.submit.acme`` is ``acme`` on ``gw.submit``.

    Raises MalformedError (``unknown_subject``) for a subject on which no publisher speaks.
    """
    for plain in _SUBJECTS:
        if subject == plain:
            return plain, DEFAULT_PUBLISHER
        name = subject.removeprefix(plain + ".")
        if name != subject and _NAME.match(name) and name != DEFAULT_PUBLISHER:
            return plain, name
    raise MalformedError(f"no publisher speaks on {subject[:120]!a}", code="unknown_subject")


def sender(message: Message, publishers: Publishers) -> tuple[str, Publisher]:
    """The plain subject and the rule of the publisher that sent this; the size is checked before anything is read.

    Raises MalformedError (``unknown_subject``, ``document_too_large``, ``headers_too_large``), DeniedError
    (``publisher_unknown``).
    """
    subject, name = speaker(message.subject)
    rule = rule_of(publishers, name)
    check_size(message, rule)
    return subject, rule


def rule_of(publishers: Publishers, name: str) -> Publisher:
    """What the policy says of a publisher. Raises DeniedError (``publisher_unknown``) when it says nothing."""
    rule = publishers.of(name)
    if rule is None:
        raise DeniedError(f"the publisher {name} is not in publishers.json", code="publisher_unknown")
    return rule


def check_size(message: Message, rule: Publisher) -> None:
    """Before anything is read. Raises MalformedError (``document_too_large``, ``headers_too_large``)."""
    if message.header_bytes > MOST_HEADER_BYTES or len(message.headers) > MOST_HEADERS:
        words = f"{len(message.headers)} headers with {message.header_bytes} bytes; {MOST_HEADERS} headers and "
        raise MalformedError(f"{words}{MOST_HEADER_BYTES} bytes are allowed", code="headers_too_large")
    data = message.data
    if len(data) > rule.max_document_bytes:
        raise MalformedError(
            f"a document of {rule.name} holds at most {rule.max_document_bytes} bytes, not {len(data)}",
            code="document_too_large",
        )


def check_document(document: RunRequest | TaskContract, run_id: str, rule: Publisher) -> None:
    """Whether the publisher may have this done. Raises DeniedError with every fault, and the code of the first."""
    kind: SubmissionKind = "request" if isinstance(document, RunRequest) else "contract"
    if faults := document_faults(document, kind, run_id, rule):
        words = "; ".join(f"{fault.pointer or '/'}: {fault.message}" for fault in faults)
        raise DeniedError(words, faults=faults, code=faults[0].code)


def document_faults(
    document: RunRequest | TaskContract, kind: SubmissionKind, run_id: str, rule: Publisher
) -> tuple[Fault, ...]:
    """What of a document the publisher may not have.

    1. its kind  2. its priority  3. an address that holds a password  4. the repository  5. the ref that it lands on.
    """
    faults = []
    if kind not in rule.kinds:  # 1
        faults.append(Fault("", "kind_not_allowed", f"{rule.name} may not submit a {kind}"))
    if CLASSES.index(document.priority) < CLASSES.index(rule.highest_priority):  # 2
        faults.append(Fault("/priority", "priority_not_allowed", f"at most {rule.highest_priority} for {rule.name}"))
    repository = document.repository
    if repository is not None:
        if holds_credentials(repository.url):  # 3
            # What is accepted is kept for ever, and the address goes into every bundle.
            words = "an address holds no user and no password: repositories.json refers to credentials"
            faults.append(Fault("/repository/url", "repository_has_credentials", words))
        if not covers_address(repository.url, rule.repositories):  # 4
            faults.append(Fault("/repository/url", "repository_not_allowed", f"not a repository of {rule.name}"))
        ref = landing_ref(run_id, repository)
        if ref and not ref_covered(ref, rule.landing_refs):  # 5
            place = "target_ref" if repository.landing == "target" else "landing"
            faults.append(Fault(f"/repository/{place}", "ref_not_allowed", f"{rule.name} may not land there"))
    return tuple(faults)


def check_same(run: Run, publisher: str, document_sha256: str) -> None:
    """A key that has made a run makes no other. Raises DeniedError (``idempotency_key_reused``) for another document."""
    if run.publisher != publisher or run.accepted.document_sha256 != document_sha256:
        words = "this idempotency key has begun a run with another document"
        fault = Fault("/idempotency_key", "idempotency_key_reused", words)
        raise DeniedError(words, faults=(fault,), code="idempotency_key_reused")


def may_see(run: Run, rule: Publisher) -> bool:
    return rule.may_see == "any" or run.publisher == rule.name


def may_abort(run: Run, rule: Publisher) -> bool:
    return rule.may_abort == "any" or run.publisher == rule.name
