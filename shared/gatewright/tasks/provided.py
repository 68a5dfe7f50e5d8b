"""Files that commands are shown beside the repository's: generated ones that git ignores, say, and that need git to be made.

They travel as input artifacts named ``provide:PATH``, so that contract and bundle hold their digests, and every host has them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gatewright.contracts import TaskContract
from gatewright.contracts.vocabulary import Artifact
from gatewright.errors import MalformedError
from gatewright.tasks.handler import ArtifactPort
from gatewright.tasks.inputs import read_artifact

PREFIX: Final = "provide:"
#: Files of one contract, and bytes of one and of all of them: what is generated for commands is small.
MOST_FILES: Final = 200
MOST_BYTES: Final = 8 * 1024 * 1024
MOST_BYTES_IN_ALL: Final = 64 * 1024 * 1024
TOO_LARGE: Final = "provided_too_large"


def provided(artifacts: Iterable[Artifact]) -> tuple[Artifact, ...]:
    """Those of ``artifacts`` that are files to be shown."""
    return tuple(artifact for artifact in artifacts if artifact.name.startswith(PREFIX))


def path_of(artifact: Artifact) -> str:
    """Where a provided file is shown, from the top of the repository."""
    return artifact.name.removeprefix(PREFIX)


async def provided_files(contract: TaskContract, artifacts: ArtifactPort) -> dict[bytes, bytes]:
    """The contents by path. Raises MalformedError (``provided_too_large``, ``artifact_ambiguous``, ...), ArtifactError."""
    files: dict[bytes, bytes] = {}
    wanted = provided(contract.inputs.artifacts)
    if len(wanted) > MOST_FILES:
        raise MalformedError(f"{len(wanted)} files are provided, at most {MOST_FILES} are taken", code=TOO_LARGE)
    size = 0
    for artifact in wanted:
        content = await read_artifact(contract, artifact.name, artifacts)
        size += len(content)
        refuse_large(path_of(artifact), len(content), size)
        files[path_of(artifact).encode()] = content
    return files


def refuse_large(path: str, size: int, in_all: int) -> None:
    """Nothing, or MalformedError (``provided_too_large``): ``size`` bytes of one file, ``in_all`` of all up to it."""
    if size > MOST_BYTES:
        raise MalformedError(f"{path} has {size} bytes; a provided file may have {MOST_BYTES}", code=TOO_LARGE)
    if in_all > MOST_BYTES_IN_ALL:
        raise MalformedError(f"the provided files have more than {MOST_BYTES_IN_ALL} bytes", code=TOO_LARGE)
