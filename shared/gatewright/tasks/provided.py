"""Files that commands see beside the repository's, for example generated ones that git ignores.

They are input artifacts named ``provide:PATH``, so that contract and bundle have their digests, and every host has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from gatewright.artifacts import PROVIDED, ArtifactPort
from gatewright.contracts import TaskContract
from gatewright.contracts.vocabulary import Artifact
from gatewright.errors import MalformedError
from gatewright.order_artifacts.hidden_acceptance import hidden_files, hidden_path

#: Files of one contract, and bytes of one and of all of them: what is generated for commands is small.
MOST_FILES: Final = 200
MOST_BYTES: Final = 8 * 1024 * 1024
MOST_BYTES_IN_ALL: Final = 64 * 1024 * 1024
TOO_LARGE: Final = "provided_too_large"


def provided(artifacts: Iterable[Artifact]) -> tuple[Artifact, ...]:
    """Those of ``artifacts`` that are files to be shown."""
    return tuple(artifact for artifact in artifacts if artifact.name.startswith(PROVIDED))


def path_of(artifact: Artifact) -> str:
    """Where a provided file is shown, from the top of the repository."""
    return artifact.name.removeprefix(PROVIDED)


async def provided_files(contract: TaskContract, artifacts: ArtifactPort) -> dict[bytes, bytes]:
    """The contents by path. Raises MalformedError (``provided_too_large``, ``artifact_ambiguous``, ...), ArtifactError."""
    wanted = {path_of(artifact): artifact.name for artifact in provided(contract.inputs.artifacts)}
    return await _provided_contents(contract, wanted, artifacts)


async def hidden_contents(contract: TaskContract, artifacts: ArtifactPort) -> dict[bytes, bytes]:
    """The files that hidden commands alone see, by path. Raises as ``provided_files`` does."""
    wanted = {hidden_path(artifact): artifact.name for artifact in hidden_files(contract.inputs.artifacts)}
    return await _provided_contents(contract, wanted, artifacts)


async def _provided_contents(contract: TaskContract, wanted: Mapping[str, str], artifacts: ArtifactPort) -> dict[bytes, bytes]:
    """By path; ``wanted`` has the names of the artifacts."""
    # Imported late: the command line, which provides them, opens no repository of a task.
    from gatewright.tasks.inputs import read_artifact

    files: dict[bytes, bytes] = {}
    if len(wanted) > MOST_FILES:
        raise MalformedError(f"{len(wanted)} files are provided, at most {MOST_FILES} are taken", code=TOO_LARGE)
    size = 0
    for path, name in wanted.items():
        content = await read_artifact(contract, name, artifacts)
        size += len(content)
        refuse_large(path, len(content), size)
        files[path.encode()] = content
    return files


def refuse_large(path: str, size: int, in_all: int) -> None:
    """Nothing, or MalformedError (``provided_too_large``): ``size`` bytes of one file, ``in_all`` of all up to it."""
    if size > MOST_BYTES:
        raise MalformedError(f"{path} has {size} bytes; a provided file may have {MOST_BYTES}", code=TOO_LARGE)
    if in_all > MOST_BYTES_IN_ALL:
        raise MalformedError(f"the provided files have more than {MOST_BYTES_IN_ALL} bytes", code=TOO_LARGE)
