"""Identification of publishers and their permissions. Limits are in ``limits.py``.

The subject identifies the publisher, since the server lets every identity publish only under its own subjects. A sender field
inside a document is ignored.
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
#: Maximum number and bytes of headers of one message: CloudEvents keep their attributes there; other documents need few.
MOST_HEADERS, MOST_HEADER_BYTES = 128, 16_384
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}\Z")  # noqa: TID251 - linear: anchored, and no repetition can give to the next


def speaker(subject: str) -> tuple[str, str]:
    """Return the plain subject and the publisher named by its last token: ``gw.submit.acme`` is ``acme`` on ``gw.submit``.

    Raises:
        MalformedError: no publisher may use this subject (``unknown_subject``).
    """
    for plain in _SUBJECTS:
        if subject == plain:
            return plain, DEFAULT_PUBLISHER
        name = subject.removeprefix(plain + ".")
        if name != subject and _NAME.match(name) and name != DEFAULT_PUBLISHER:
            return plain, name
    raise MalformedError(f"no publisher speaks on {subject[:120]!a}", code="unknown_subject")


def sender(message: Message, publishers: Publishers) -> tuple[str, Publisher]:
    """Return the plain subject and the rule of the publisher that sent a message. The size is checked before parsing.

    Raises:
        MalformedError: ``unknown_subject``, ``document_too_large``, ``headers_too_large``.
        DeniedError: ``publisher_unknown``.
    """
    subject, name = speaker(message.subject)
    rule = rule_of(publishers, name)
    check_size(message, rule)
    return subject, rule


def rule_of(publishers: Publishers, name: str) -> Publisher:
    """Return the policy's rule for a publisher.

    Raises:
        DeniedError: the policy has no such publisher (``publisher_unknown``).
    """
    rule = publishers.of(name)
    if rule is None:
        raise DeniedError(f"the publisher {name} is not in publishers.json", code="publisher_unknown")
    return rule


def check_size(message: Message, rule: Publisher) -> None:
    """Check the size of a message before parsing it.

    Raises:
        MalformedError: ``document_too_large``, ``headers_too_large``.
    """
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
    """Check that the publisher may submit this document.

    Raises:
        DeniedError: lists every fault and has the code of the first.
    """
    kind: SubmissionKind = "request" if isinstance(document, RunRequest) else "contract"
    if faults := document_faults(document, kind, run_id, rule):
        words = "; ".join(f"{fault.pointer or '/'}: {fault.message}" for fault in faults)
        raise DeniedError(words, faults=faults, code=faults[0].code)


def document_faults(
    document: RunRequest | TaskContract, kind: SubmissionKind, run_id: str, rule: Publisher
) -> tuple[Fault, ...]:
    """Return the faults of a document under its publisher's rule.

    1. Its kind.
    2. Its priority.
    3. No URL with a password.
    4. The repository.
    5. The ref that it lands on.
    """
    faults = []
    if kind not in rule.kinds:  # 1
        faults.append(Fault("", "kind_not_allowed", f"{rule.name} may not submit a {kind}"))
    if CLASSES.index(document.priority) < CLASSES.index(rule.highest_priority):  # 2
        faults.append(Fault("/priority", "priority_not_allowed", f"at most {rule.highest_priority} for {rule.name}"))
    repository = document.repository
    if repository is not None:
        if holds_credentials(repository.url):  # 3
            # Accepted documents are stored permanently, and every bundle contains the URL.
            words = "an address holds no user and no password: repositories.json refers to credentials"
            faults.append(Fault("/repository/url", "repository_has_credentials", words))
        if not covers_address(repository.url, rule.repositories):  # 4
            faults.append(Fault("/repository/url", "repository_not_allowed", f"not a repository of {rule.name}"))
        ref = landing_ref(run_id, repository)
        if ref and not ref_covered(ref, rule.landing_refs):  # 5
            place = "target_ref" if repository.moves_target else "landing"
            faults.append(Fault(f"/repository/{place}", "ref_not_allowed", f"{rule.name} may not land there"))
    return tuple(faults)


def check_same(run: Run, publisher: str, document_sha256: str) -> None:
    """Check that an idempotency key is reused only with the same document.

    Raises:
        DeniedError: the key made a run from another document (``idempotency_key_reused``).
    """
    if run.publisher != publisher or run.accepted.document_sha256 != document_sha256:
        words = "this idempotency key has begun a run with another document"
        fault = Fault("/idempotency_key", "idempotency_key_reused", words)
        raise DeniedError(words, faults=(fault,), code="idempotency_key_reused")


def may_see(run: Run, rule: Publisher) -> bool:
    return rule.may_see == "any" or run.publisher == rule.name


def may_abort(run: Run, rule: Publisher) -> bool:
    return rule.may_abort == "any" or run.publisher == rule.name
