"""The user, by the account of this host and by git, and the user's checkout."""

from __future__ import annotations

import contextlib
import os
import pwd
from collections.abc import Mapping
from pathlib import Path

import msgspec

from gatewright.app.cli.settings import USER_SIGNING, user_git_environment, user_signing_variables
from gatewright.contracts import RunRequest, TaskContract
from gatewright.contracts.people.authors import commit_author
from gatewright.contracts.vocabulary import Person
from gatewright.errors import GitError
from gatewright.git.host.user_checkout import UserCheckout


def user_checkout(start: Path) -> UserCheckout:
    """Return the checkout around ``start``, with the git configuration of the user."""
    return UserCheckout(start, user_git_environment())


def with_user_signing(keys: Mapping[str, Mapping[str, str]], folder: Path) -> dict[str, Mapping[str, str]]:
    """Return variables of roles, with how the user's git signs commits in ``folder`` for the gatekeeper.

    Unchanged where git signs none, and for a repository that is no local folder. A process that was started with an answer
    keeps it.
    """
    variables = user_signing_variables()
    if USER_SIGNING not in variables and folder.is_dir():
        with contextlib.suppress(GitError):  # a folder that git cannot read has an error of its own
            if (signing := user_checkout(folder).signing()) is not None:
                variables[USER_SIGNING] = msgspec.json.encode(signing).decode()
    own = variables if USER_SIGNING in variables else {}
    return {**keys, "gatekeeper": {**keys.get("gatekeeper", {}), **own}}


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
