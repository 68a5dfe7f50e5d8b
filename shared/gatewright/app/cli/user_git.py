"""The user, by the account of this host and by git, and the user's checkout."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import msgspec

from gatewright.app.cli.settings import user_git_environment
from gatewright.contracts import RunRequest, TaskContract
from gatewright.contracts.people.authors import commit_author
from gatewright.contracts.vocabulary import Person
from gatewright.git.host.user_checkout import UserCheckout


def user_checkout(start: Path) -> UserCheckout:
    """Return the checkout around ``start``, with the git configuration of the user."""
    return UserCheckout(start, user_git_environment())


def user_name() -> str:
    """Return the account of this process, for records."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"uid-{os.geteuid()}"


def who_orders(start: Path) -> tuple[str, ...]:
    """Return every known name of the user: the account, and git's address in ``start``."""
    return person_names(author(start))


def person_names(known: Person | None) -> tuple[str, ...]:
    """Return the names of the user, whom git calls ``known``."""
    return (user_name(), known.email) if known is not None else (user_name(),)


def with_orderer(document: RunRequest | TaskContract, start: Path) -> RunRequest | TaskContract:
    """Return ``document`` as ordered by the user, unless it names a person itself."""
    return document if document.ordered_by else msgspec.structs.replace(document, ordered_by=who_orders(start))


def author(start: Path) -> Person | None:
    """Return the author of commits in ``start`` by git's rules: GIT_AUTHOR_*, author.*, user.*; None if incomplete."""
    environment = user_git_environment()
    name, email = (environment.get(f"GIT_AUTHOR_{key}") for key in ("NAME", "EMAIL"))
    if not (name and email):
        configured = user_checkout(start).identity()
        name, email = name or configured.name, email or configured.email
    return commit_author(name, email)
