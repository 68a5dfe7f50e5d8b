"""What a task's contract points at, fetched and checked: repository and baseline, artifacts, candidate, environment.

Shared by the roles that look at trees. Nothing here believes a name: commits are full ids, artifacts have the digest that the
contract gives, a prefix is one that the operator listed. Whether the contract may ask for it is the gatekeeper's question.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gatewright.artifacts import ArtifactPort, stored_digest, uri_of
from gatewright.contracts import TaskContract
from gatewright.contracts.vocabulary import Artifact, Environment, FurtherEnvironment
from gatewright.environment_state import CHANGED, see_folder
from gatewright.errors import DeniedError, MalformedError
from gatewright.git.mirror import Mirror, Mirrors
from gatewright.git.tracked import refuse_tracked_environment
from gatewright.profiles.choice import image_of
from gatewright.sandbox.environments import Environments, ShownFolder
from gatewright.sandbox.images import UNAVAILABLE, ImageRoot, find_image, folder_of, is_pinned
from gatewright.sandbox.programs import find_program
from gatewright.tasks.protocol import CANDIDATE

#: As the last part of a listed prefix: every environment in the folder before it.
EVERY = "*"
#: Environments of one contract.
MOST_ENVIRONMENTS = 32
NOT_FREE = "place_not_free"


@dataclass(frozen=True, slots=True)
class RebuiltCandidate:
    """A candidate rebuilt from the baseline: ``baseline`` is a commit id, ``baseline_tree`` and ``tree`` are tree ids."""

    mirror: Mirror
    baseline: str
    baseline_tree: str
    tree: str


async def open_baseline(contract: TaskContract, mirrors: Mirrors) -> tuple[Mirror, str]:
    """The mirror of the contract's repository, holding its baseline, and that commit's full id.

    Raises MalformedError (``repository_missing``, ``bad_ref``), GitError.
    """
    if contract.repository is None:
        raise MalformedError("the contract names no repository", code="repository_missing")
    mirror = await mirrors.open(contract.repository.url)
    await mirror.ensure(contract.rollback.baseline_ref)
    return mirror, contract.rollback.baseline_ref


async def rebuild_candidate(contract: TaskContract, mirrors: Mirrors, artifacts: ArtifactPort) -> RebuiltCandidate:
    """The candidate that the contract's ``candidate.patch`` makes of its baseline.

    Raises MalformedError, GitError, ArtifactError, and PatchError when the patch does not apply.
    """
    mirror, baseline = await open_baseline(contract, mirrors)
    patch = await read_artifact(contract, CANDIDATE, artifacts)
    tree = await mirror.apply(baseline, patch)
    return RebuiltCandidate(mirror, baseline, await mirror.tree_of(baseline), tree)


def find_artifact(contract: TaskContract, name: str) -> Artifact:
    """The input artifact ``name``. Raises MalformedError (``artifact_missing``, ``artifact_ambiguous`` for two of a name)."""
    named = {
        (artifact.uri, artifact.sha256.lower()): artifact for artifact in contract.inputs.artifacts if artifact.name == name
    }
    if len(named) != 1:
        code = "artifact_ambiguous" if named else "artifact_missing"
        raise MalformedError(f"the contract has {len(named) or 'no'} input artifact(s) named {name!r}", code=code)
    return next(iter(named.values()))


async def read_artifact(contract: TaskContract, name: str, artifacts: ArtifactPort) -> bytes:
    """The bytes of the input artifact ``name``, digest checked.

    Raises MalformedError (also ``bad_artifact_uri``, ``artifact_digest_mismatch``), ArtifactError.
    """
    artifact = find_artifact(contract, name)
    if stored_digest(artifact.uri) != artifact.sha256.lower():
        raise MalformedError(f"the artifact {name!r} has two different digests", code="artifact_digest_mismatch")
    return await artifacts.get(artifact.uri)


def reference(name: str, data: bytes) -> Artifact:
    """Return the reference to ``data`` under ``name`` in a document, stored already or not."""
    uri = uri_of(data)
    return Artifact(name=name, uri=uri, sha256=stored_digest(uri))


def environment_prefix(environment: Environment | FurtherEnvironment | None, listed: Sequence[Path]) -> Path | None:
    """The listed prefix that the contract names; None when it names none.

    A listed ``FOLDER/*`` stands for every environment that lies in it.
    Raises DeniedError (``environment_not_allowed``) when the operator did not list it for this role.
    """
    if environment is None:
        return None
    if "\0" in environment.prefix:
        raise DeniedError("an environment's path holds a zero byte: no folder has such a name", code="environment_not_allowed")
    asked = Path(environment.prefix)
    found = next((prefix for prefix in listed if asked.is_absolute() and _real(prefix) == _real(asked)), None)
    if found is None and asked.is_absolute() and offered_below(asked, listed):
        found = _real(asked)
    if found is None:
        raise DeniedError(f"the environment {environment.prefix!r} is not listed for this role", code="environment_not_allowed")
    return found


def offered_below(asked: Path, listed: Sequence[Path]) -> bool:
    """Return whether ``asked`` is in the ``FOLDER`` of a listed ``FOLDER/*``, itself and not by a link out of it."""
    return any(prefix.name == EVERY and _real(asked).parent == _real(prefix.parent) for prefix in listed)


def _real(path: Path) -> Path:
    """Without links. ``Path.resolve`` raises RuntimeError for links that lead to each other."""
    return Path(os.path.realpath(path))


def listed_environments(contract: TaskContract, listed: Sequence[Path]) -> Environments | None:
    """All that the contract names, each of them listed, or the image of its profile; None when it names none.

    Raises DeniedError (``environment_not_allowed``, ``environment_image_unavailable``).
    """
    environment = contract.environment
    if environment is None:
        image = image_of(contract)
        return Environments((), unpacked_image(image, listed)) if image is not None else None
    if len(environment.all) > MOST_ENVIRONMENTS:
        raise DeniedError(f"more than {MOST_ENVIRONMENTS} environments are asked for", code="environment_not_allowed")
    found = ((environment_prefix(each, listed), each.at or "") for each in environment.all)
    return Environments(tuple(ShownFolder(prefix, at) for prefix, at in found if prefix is not None))


async def usable_environment(
    contract: TaskContract, listed: Sequence[Path], mirror: Mirror, baseline: str
) -> Environments | None:
    """Return the environment like above, if its content cannot be tracked and its paths are free in the baseline's tree.

    Raises:
        DeniedError: also ``environment_tracked``, ``place_not_free``, ``environment_changed``.
        ConfigurationError: the environment cannot be read.
    """
    shown = listed_environments(contract, listed)
    if shown is None:
        return None
    for each in contract.environment.all if contract.environment is not None else ():
        await refuse_tracked_environment(Path(each.prefix), mirror, baseline)
    if shown.image is not None:
        await refuse_tracked_environment(shown.image.folder, mirror, baseline)
        await asyncio.to_thread(_refuse_other_files, shown.image)
    await refuse_taken_places(shown, mirror, baseline, NOT_FREE)
    return shown


def unpacked_image(image: str, listed: Sequence[Path]) -> ImageRoot:
    """The ``image`` that an operator has unpacked in a listed ``FOLDER/*``, or listed by its own folder.

    Raises DeniedError (``environment_image_unavailable``) for a tag, and when this host does not have it.
    """
    folders = [prefix.parent / folder_of(image) if prefix.name == EVERY else prefix for prefix in listed]
    found = find_image(image, [folder.resolve() for folder in folders]) if is_pinned(image) else None
    if found is None:
        words = f"commands are to run in {image}, which is not unpacked on this host: gatewright image {image}"
        raise DeniedError(words, code=UNAVAILABLE)
    return found


def _refuse_other_files(image: ImageRoot) -> None:
    if see_folder(image.files).files_sha256 != image.record.files_sha256:
        words = f"{image.files} is not what was unpacked of {image.record.image}: remove the folder and unpack it again"
        raise DeniedError(words, code=CHANGED)


def refuse_missing_tools(contract: TaskContract, listed: Sequence[Path]) -> None:
    """Refuse the task when commands would not find a tool of the profile that the request names.

    A profile that was derived from a word of the request guarantees nothing: its commands show what the run needs.

    Raises:
        DeniedError: ``environment_tool_missing``.
    """
    profile = contract.environment_profile
    if profile is None or profile.chosen_by != "language":
        return
    shown = listed_environments(contract, listed)
    missing = [tool for tool in profile.tools if find_program(tool, shown) is None]
    if missing:
        words = f"the profile of {profile.language} promises {', '.join(missing)}, and commands would not find that here"
        raise DeniedError(words, code="environment_tool_missing")


async def refuse_taken_places(shown: Environments | None, mirror: Mirror, tree: str, code: str) -> None:
    """DeniedError of ``code`` when ``tree`` has a file where an environment is to be shown, below that, or on the way there."""
    places = [place for _, place in shown.mounts()] if shown is not None else []
    for entry in await mirror.files(tree) if places else ():
        path = entry.path.decode("utf-8", "surrogateescape")
        for place in places:
            if path == place or path.startswith(f"{place}/") or place.startswith(f"{path}/"):
                words = f"{place} is to be an environment, and the repository has {path}: what it tracks is never one"
                raise DeniedError(words, code=code)
