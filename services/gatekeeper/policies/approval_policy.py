"""The operator's files about people.

``approval_rules.json`` defines which rules request approval, ``approvers.json`` who may answer, and ``CODEOWNERS`` who owns
which part of a repository. Without the files no run requests approval. Rules and roster are documents with published schemas,
which runs record. The roster is read again for every decision, so that the revocation of a key takes effect immediately. The
roster has an error code of its own, and ``CODEOWNERS`` is not JSON, so this module reads both instead of a ``PolicyFile``.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from gatewright.contracts import ApprovalRules, ApproverRoster, codec
from gatewright.contracts.people.approvals import DEFAULT_BEAT, LONGEST_WAIT, ApprovalRule, RosterKey
from gatewright.contracts.people.identities import person_key
from gatewright.errors import ConfigurationError, GatewrightError, MalformedError
from gatewright.git.access.repository_patterns import check_pattern, check_ref_pattern, covers_address
from gatewright.models.policy import MODELS_FILE, ModelsPolicy
from gatewright.path_patterns.code_owners import read_code_owners
from gatewright.path_patterns.matcher import path_matcher
from gatewright.policy_files import APPROVAL_RULES, PolicyFile, policy_path, read_policy
from gatewright.rules.approvals import NEVER_BY_RULE
from gatewright.rules.critic import NEVER_BY_MODEL
from gatewright.rules.gate_evidence import ROSTER as ROSTER_FILE
from gatewright.rules.grants import GRANTABLE
from gatewright.rules.quorum import names_person
from gatewright.ssh_signatures import check_key, fingerprint, public_blob
from gatewright.ssh_signatures.passkeys import relying_party_of

RULES_FILE = PolicyFile(APPROVAL_RULES, ApprovalRules, decode=codec.decode)
OWNERS_FILE = "CODEOWNERS"
_MAKES_OR_JUDGES: Final = ("worker", "reviewer")
_NO_PEOPLE = ApproverRoster(version="1", people=())


@dataclass(frozen=True)
class ApprovalPolicy:
    """The rules, the path of the roster, and the digests of the existing files."""

    rules: tuple[ApprovalRule, ...] = ()
    roster_file: Path | None = None
    digests: tuple[tuple[str, str], ...] = ()

    def of(self, repository: str) -> tuple[ApprovalRule, ...]:
        """Return the rules for runs of this repository. Reads the file system for a local one."""
        return tuple(rule for rule in self.rules if not rule.repositories or covers_address(repository, rule.repositories))

    def asks(self, reason: str, repository: str) -> bool:
        """Return whether a rule requests approval for this reason."""
        return any(rule.reason == reason for rule in self.of(repository))

    def roster(self) -> tuple[ApproverRoster, str]:
        """Read the roster from its file.

        Returns:
            The roster and its digest.

        Raises:
            ConfigurationError: the file is missing or invalid (``approvers_unusable``).
        """
        if self.roster_file is None:
            return _NO_PEOPLE, hashlib.sha256(b"").hexdigest()
        data = read_policy(self.roster_file)
        return read_roster(self.roster_file, data), hashlib.sha256(data).hexdigest()


def load_approval_policy(folder: Path, beat: int = DEFAULT_BEAT) -> ApprovalPolicy:
    """Read the three files of the operator's folder.

    Args:
        folder: the policy folder.
        beat: length of a beat in seconds.

    Raises:
        ConfigurationError: a file is invalid, or no person could answer a rule.
    """
    rules_file, roster_file, owners_file = (policy_path(folder, name) for name in (RULES_FILE.name, ROSTER_FILE, OWNERS_FILE))
    contents = {path.name: read_policy(path) for path in (rules_file, roster_file, owners_file) if path.exists()}
    roster = read_roster(roster_file, contents[ROSTER_FILE]) if ROSTER_FILE in contents else _NO_PEOPLE
    rules: tuple[ApprovalRule, ...] = ()
    if rules_file.name in contents:
        rules = _usable_rules(rules_file, RULES_FILE.parse(rules_file, contents[rules_file.name]).rules, roster, beat)
    rules = _with_owners(rules, owners_file, contents.get(OWNERS_FILE), roster)
    digests = tuple((name, hashlib.sha256(data).hexdigest()) for name, data in sorted(contents.items()))
    return ApprovalPolicy(rules, roster_file if ROSTER_FILE in contents else None, digests)


def check_models(rules: Iterable[ApprovalRule], models: ModelsPolicy) -> None:
    """Refuse rules under which a model could vote on a change that the same model may have made.

    Raises:
        ConfigurationError: names the rule.
    """
    counting = next((rule.name for rule in rules if rule.model_first or (rule.quorum and rule.quorum.model_counts)), None)
    routes = {
        role: {name for route in models.routes if route.role == role for name in route.models} for role in _MAKES_OR_JUDGES
    }
    both = sorted(set.intersection(*routes.values()))
    if counting is not None and both:
        words = f"{MODELS_FILE} gives {', '.join(both)} to the worker and to the reviewer, which would judge its own change"
        raise ConfigurationError(f"the rule {counting} counts the word of a model: {words}")


def read_roster(path: Path, data: bytes) -> ApproverRoster:
    """Decode ``data`` as a roster. Every key must be readable and belong to one person.

    Raises:
        ConfigurationError: the roster is invalid (``approvers_unusable``).
    """
    try:
        roster = codec.decode(data, ApproverRoster)
        for person in roster.people:
            for key in person.keys:
                _check_strength(key, person.name)
                _check_times(key.valid_from, key.valid_until, key.revoked_at)
                _check_passkey(key)
        prints = Counter(fingerprint(key.key) for person in roster.people for key in person.keys)
    except (MalformedError, ValueError) as error:
        raise _unusable(path, str(error)) from error
    twice = [name for name, count in prints.items() if count > 1]
    if twice:
        raise _unusable(path, f"the key {', '.join(twice)} is listed twice: a key belongs to one person")
    _check_names(path, roster)
    return roster


def _check_names(path: Path, roster: ApproverRoster) -> None:
    """Refuse two entries that are spellings of one name. Raises ConfigurationError (``approvers_unusable``)."""
    by_key: dict[str, list[str]] = {}
    for person in roster.people:
        by_key.setdefault(person_key(person.name), []).append(person.name)
    for names in by_key.values():
        if len(names) > 1:
            words = f"{' and '.join(sorted(names))} are one person: names differ in more than letter case; keep one entry"
            raise _unusable(path, words)


def _check_strength(key: RosterKey, name: str) -> None:
    """Refuse weak keys with a message that names the owner and the remedy. A revoked key may stay, since it signs nothing."""
    try:
        public_blob(key.key) if key.revoked_at is not None else check_key(key.key)
    except MalformedError as error:
        named = f"{fingerprint(key.key)}" if error.reason == "weak_ssh_key" else ascii(key.key[:60])
        remedy = f"have {name} make another one (ssh-keygen -t ed25519) and enter its .pub line in its place"
        raise ValueError(f"a key of {name} ({named}) is refused: {error.message}; {remedy}") from error


def _check_times(*times: str | None) -> None:
    for time in times:
        if time is not None and datetime.fromisoformat(time).tzinfo is None:
            raise ValueError(f"{time} is a time without a zone")


def _check_passkey(key: RosterKey) -> None:
    """Check that a passkey names its pages, and that its relying party is the host of each page or a parent domain."""
    party = relying_party_of(key.key)
    if bool(party) != bool(key.origins):
        raise ValueError(f"the key {fingerprint(key.key)}: origins belong to a passkey, and a passkey needs them")
    for origin in key.origins:
        host = urlsplit(origin).hostname or ""
        if host != party and not host.endswith(f".{party}"):
            raise ValueError(f"a passkey of {party} does not sign on pages of {origin}")


def _usable_rules(path: Path, rules: tuple[ApprovalRule, ...], roster: ApproverRoster, beat: int) -> tuple[ApprovalRule, ...]:
    try:
        for rule in rules:
            _check_rule(rule, roster)
        rules = tuple(_in_seconds(rule, beat) for rule in rules)
    except GatewrightError as error:
        raise ConfigurationError(f"{path}: {error.message}") from error
    twice = [name for name, count in Counter(rule.name for rule in rules).items() if count > 1]
    if twice:
        raise ConfigurationError(f"{path}: {', '.join(twice)} stands there twice")
    return rules


def _in_seconds(rule: ApprovalRule, beat: int) -> ApprovalRule:
    """Return ``rule`` with its time converted to seconds. Raises ConfigurationError."""
    if (rule.within_seconds is None) == (rule.within_beats is None):
        raise ConfigurationError(f"the rule {rule.name} must set exactly one of within_seconds and within_beats")
    if rule.within_beats is None:
        return rule
    if rule.within_beats * beat > LONGEST_WAIT:
        words = f"the rule {rule.name} waits for {rule.within_beats} beats of {beat} s: {LONGEST_WAIT} s are the most"
        raise ConfigurationError(words)
    return msgspec.structs.replace(rule, within_seconds=rule.within_beats * beat, within_beats=None)


def _check_rule(rule: ApprovalRule, roster: ApproverRoster) -> None:
    """Check one rule.

    1. It can be answered.
    2. The things it names can exist.
    3. Automatic approval is limited to low risk, where it is permitted at all.
    """
    if (rule.reason == "review") != (rule.quorum is not None):
        raise ConfigurationError(f"the rule {rule.name}: a quorum belongs to the reason review, and to no other")
    voters = (rule.quorum.domain, rule.quorum.quality, rule.quorum.duo) if rule.quorum is not None else ()
    if rule.quorum is not None and rule.quorum.owners:
        raise ConfigurationError(f"the rule {rule.name}: owners are listed in {OWNERS_FILE}; use by_owner")
    if rule.quorum is not None and rule.quorum.duo and len({person_key(name) for name in rule.quorum.duo}) != 2:
        raise ConfigurationError(f"the rule {rule.name}: a duo is two people or groups")
    if rule.quorum is not None and (rule.phrase or rule.batch or rule.yourself):
        raise ConfigurationError(f"the rule {rule.name}: a review has no phrase and no batch, and is never one's own")
    for asked in filter(None, (rule.approvers, rule.escalate_to, *voters)):  # 1
        for name in asked:
            if not any(names_person((name,), person) for person in roster.people):
                words = f"the rule {rule.name} asks {name}, and {ROSTER_FILE} has no such person or group"
                raise ConfigurationError(words)
    _check_number(rule, roster)
    _check_paths(rule)
    if rule.on_reject == "repair" and rule.stage != "candidate":
        raise ConfigurationError(f"the rule {rule.name}: on_reject wants a change that can be sent back, and none is made yet")
    if rule.stage == "beside" and (rule.escalate_to or rule.release_locks):
        raise ConfigurationError(
            f"the rule {rule.name}: no run waits for its answer, so take out escalate_to and release_locks"
        )
    for pattern in rule.repositories:  # 2
        check_pattern(pattern)
    for pattern in rule.refs:
        check_ref_pattern(pattern)
    _check_easier(rule)  # 3


def _check_number(rule: ApprovalRule, roster: ApproverRoster) -> None:
    """Check that as many people as the rule needs can approve."""
    if rule.approvals > 1 and (rule.reason == "review" or rule.stage == "beside" or rule.autopilot or rule.grants):
        words = "several approvals fit no review, no question beside the run, no autopilot and no grants"
        raise ConfigurationError(f"the rule {rule.name}: {words}")
    for asked in filter(None, (rule.approvers, rule.escalate_to)):
        people = {person_key(person.name) for person in roster.people if names_person(asked, person)}
        if len(people) < rule.approvals:
            words = f"needs {rule.approvals} approvals, and {ROSTER_FILE} has {len(people)} people among {', '.join(asked)}"
            raise ConfigurationError(f"the rule {rule.name} {words}")


def _check_paths(rule: ApprovalRule) -> None:
    """Check that a class of paths has patterns that can match, and that no other rule has any."""
    if (rule.reason == "path_class") != bool(rule.paths):
        raise ConfigurationError(f"the rule {rule.name}: the reason path_class needs paths, and no other reason has them")
    for pattern in rule.paths:
        bare = pattern.removeprefix("!")
        if bare != bare.strip() or not bare.strip("/") or bare.startswith(("#", "./")) or "//" in bare or "\\" in bare:
            raise ConfigurationError(f"the rule {rule.name}: {pattern!r} matches no path; use a gitignore pattern")
    if rule.paths and all(pattern.startswith("!") for pattern in rule.paths):
        raise ConfigurationError(f"the rule {rule.name}: its paths only exclude; name the paths of the class first")
    try:
        path_matcher((rule.paths,))
    except MalformedError as error:
        raise ConfigurationError(f"the rule {rule.name}: {error.message}") from error


def _check_easier(rule: ApprovalRule) -> None:
    """Check that only permitted kinds of requests are approved by rule, by a model, in advance or in bulk."""
    if rule.autopilot and (rule.risk != "low" or rule.reason in NEVER_BY_RULE or rule.phrase):
        words = f"the rule {rule.name} cannot approve by itself: only what is of low risk, wants no phrase, and is none of"
        raise ConfigurationError(f"{words} {', '.join(sorted(NEVER_BY_RULE))}")
    if rule.grants is not None and (rule.risk == "high" or rule.reason not in GRANTABLE or rule.phrase):
        words = f"the rule {rule.name} cannot be answered in advance: only what is not of high risk, wants no phrase, is one of"
        raise ConfigurationError(f"{words} {', '.join(sorted(GRANTABLE))}")
    first = rule.model_first
    if first is not None and (rule.reason != "critic" or rule.risk == "high" or not NEVER_BY_MODEL.isdisjoint(first.on)):
        words = f"the rule {rule.name} cannot ask a model first: only what is not of high risk, is a doubt, and is none of"
        raise ConfigurationError(f"{words} {', '.join(sorted(NEVER_BY_MODEL))}")
    if rule.batch and rule.risk == "high":
        raise ConfigurationError(f"the rule {rule.name} is of high risk: it allows no batch")


def _with_owners(
    rules: tuple[ApprovalRule, ...], path: Path, data: bytes | None, roster: ApproverRoster
) -> tuple[ApprovalRule, ...]:
    """Add the lines of the owners file to rules with ``by_owner``. Raises ConfigurationError for an owner who cannot vote."""
    wanting = [(rule, rule.quorum) for rule in rules if rule.quorum is not None and rule.quorum.by_owner]
    if data is None:
        if wanting:
            raise ConfigurationError(f"the rule {wanting[0][0].name} uses by_owner, but {path} does not exist")
        return rules
    try:
        owned = read_code_owners(data.decode())
    except (GatewrightError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: {error}") from error
    for each in owned:
        for name in each.owners:
            people = [person for person in roster.people if names_person((name,), person)]
            if not people:
                raise ConfigurationError(f"{path}: line {each.line}: {ROSTER_FILE} has no person or group {name}")
            for rule, _ in wanting:
                if not any(names_person(rule.approvers, person) for person in people):
                    words = f"{name} has no vote: none of them is among the approvers of the rule {rule.name}"
                    raise ConfigurationError(f"{path}: line {each.line}: {words}")
    replace = msgspec.structs.replace
    by_owner = {rule.name: replace(rule, quorum=replace(quorum, owners=owned)) for rule, quorum in wanting}
    return tuple(by_owner.get(rule.name, rule) for rule in rules)


def _unusable(path: Path, words: str) -> ConfigurationError:
    return ConfigurationError(f"{path}: {words}", code="approvers_unusable")
