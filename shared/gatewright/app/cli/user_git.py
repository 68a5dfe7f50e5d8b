"""Who the user is, by the account of this host and by git; and the user's checkout."""

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
    """The checkout that ``start`` lies in, under the configuration of the person at the command line."""
    return UserCheckout(start, user_git_environment())


def user_name() -> str:
    """The account that this process belongs to, for records."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"uid-{os.geteuid()}"


def who_orders(start: Path) -> tuple[str, ...]:
    """The person at the command line, by every name that is known here: the account, and git's address in ``start``."""
    return person_names(author(start))


def person_names(known: Person | None) -> tuple[str, ...]:
    """The names of the person at the command line, whom git calls ``known``."""
    return (user_name(), known.email) if known is not None else (user_name(),)


def with_orderer(document: RunRequest | TaskContract, start: Path) -> RunRequest | TaskContract:
    """``document`` as the person at the command line orders it, unless it names a person itself."""
    return document if document.ordered_by else msgspec.structs.replace(document, ordered_by=who_orders(start))


def author(start: Path) -> Person | None:
    """Who commits in ``start``, as git would say it: GIT_AUTHOR_*, author.*, user.*; None where a part is missing."""
    environment = user_git_environment()
    name, email = (environment.get(f"GIT_AUTHOR_{key}") for key in ("NAME", "EMAIL"))
    if not (name and email):
        configured = user_checkout(start).identity()
        name, email = name or configured.name, email or configured.email
    return commit_author(name, email)
