"""The source of the change of ``gatewright run``: commands, files, standard input, or existing commits.

With ``--candidates`` several makers make the change independently. A number repeats the maker of the other options; commands
and replies have one maker each. A list names makers: an agent of agents.json, ``AGENT=MODEL`` for the agent with that model,
``=MODEL`` for a model that writes whole files.
"""

from __future__ import annotations

import asyncio
import os
import posixpath
import stat
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import msgspec

from gatewright.app.cli.home import find_repository
from gatewright.app.cli.user_git import user_checkout
from gatewright.artifacts import PROVIDED
from gatewright.contracts.people.authors import author_line, commit_author, distinct_authors
from gatewright.contracts.vocabulary import MOST_AUTHORS, Executor, ExecutorName, Person, SourceBranch
from gatewright.ecosystems.runner.names import has_test_name, is_runner_setting, is_test, is_test_data
from gatewright.errors import ConfigurationError, DeniedError, Fault, GitError, MalformedError
from gatewright.executor_kinds import EXECUTOR_KINDS, asked_first
from gatewright.git.host.branch_change import branch_change
from gatewright.git.host.user_checkout import UserCheckout
from gatewright.git.tracked import is_tracked, refuse_tracked_folder
from gatewright.order_artifacts.hidden_acceptance import PREFIX as HIDDEN_PREFIX
from gatewright.order_form.rows import bounds_of
from gatewright.order_form.run_options import ANY_AGENT, RunOptions, row
from gatewright.patterns import TextPattern
from gatewright.research.documents import PREFIX as DOCUMENT
from gatewright.sandbox.environments import ShownFolder, safe_place
from gatewright.tasks.provided import MOST_BYTES, refuse_large

PATCH = EXECUTOR_KINDS["patch"].artifact
#: The name of standard input.
STDIN = "-"
#: The first attempt, and the maximum retries of a contract.
_MOST_ATTEMPTS = 1 + int(row("max_retries").bounds.most or 0)
#: Default attempts of an agent or a model.
_ASKED = 3
#: Maximum number of candidates.
BOUNDS = bounds_of("candidates")
_PLACE = "/candidates"
#: The options that each name one maker; --model can also qualify --agent.
MAKER_FLAGS = ", ".join(row(kind.option).flag for name, kind in asked_first() if name != "model") + " and --head"


@dataclass(frozen=True, slots=True)
class ChangeSource:
    """An executor with the bytes of its artifacts. ``candidates`` replace it if there are any."""

    executor: Executor
    attachments: tuple[tuple[str, bytes], ...] = ()
    candidates: tuple[Executor, ...] = ()

    @property
    def ways(self) -> tuple[Executor, ...]:
        """Return all makers of the change."""
        return self.candidates or (self.executor,)

    @property
    def attempts(self) -> int:
        """Return the number of attempts with an answer."""
        return min(_MOST_ATTEMPTS, max(_attempts(executor) for executor in self.ways))


def _attempts(executor: Executor) -> int:
    return _ASKED if EXECUTOR_KINDS[executor.kind].asked_anew else max(1, len(executor.commands), len(executor.artifacts))


@dataclass(frozen=True, slots=True)
class BranchAnswer:
    """Existing commits as one patch. ``author`` is set if all commits have the same one."""

    answer: ChangeSource
    source: SourceBranch
    author: Person | None
    subject: str


def read_answer(options: RunOptions, faults: list[Fault]) -> ChangeSource:
    """Read the answers that the options name. Unreadable ones are added to ``faults``. ``-`` is standard input, once."""
    for name, kind in EXECUTOR_KINDS.items():
        given = getattr(options, kind.option)
        if given and kind.answers == "commands":
            return ChangeSource(Executor(kind=name, commands=given))
        if given and kind.answers == "artifacts":
            files = given if isinstance(given, tuple) else (given,)
            return _read_files(name, kind.artifact, files, faults)
    return ChangeSource(Executor(kind="reply"))


def _read_files(name: ExecutorName, artifact: str, files: Sequence[str], faults: list[Fault]) -> ChangeSource:
    if sum(path == STDIN for path in files) > 1:
        faults.append(Fault("/artifacts", "ambiguous", "standard input (-) can be read once only"))
        return ChangeSource(Executor(kind=name))
    read = []
    for number, path in enumerate(files, start=1):
        try:
            content = sys.stdin.buffer.read() if path == STDIN else Path(path).expanduser().read_bytes()
        except OSError as error:
            faults.append(Fault("/artifacts", "unreadable", f"{path} cannot be read: {error.strerror}"))
        else:
            read.append((artifact.format(number), content))
    return ChangeSource(Executor(kind=name, artifacts=tuple(each for each, _ in read)), tuple(read))


def read_branch(repository: Path, branch: str, onto: str) -> BranchAnswer:
    """Return what ``branch`` of a local repository adds to ``onto``, squashed into one patch.

    Raises:
        GitError, MalformedError, PatchError: as ``branch_change`` does.
        MalformedError: also ``too_many_authors``.
    """
    change = branch_change(user_checkout(repository), branch, onto)
    (name, email), *others = authors = distinct_authors(change.authors)
    if len(authors) > MOST_AUTHORS:
        words = f"{len(authors)} people made its commits, and a run can name {MOST_AUTHORS}: land the branch in parts"
        raise MalformedError(words, code="too_many_authors")
    return BranchAnswer(
        answer=ChangeSource(Executor(kind="patch", artifacts=(PATCH,)), ((PATCH, change.patch),)),
        source=SourceBranch(
            name=branch,
            head=change.head,
            base=change.base,
            commits=change.commits,
            authors=tuple(author_line(*each) for each in authors),
        ),
        author=commit_author(name, email) if not others else None,
        subject=change.subject.strip() or f"the commits of {branch}",
    )


def read_commits(repository: Path, head: str, onto: str, span: str | None) -> SourceBranch:
    """Return the commits of the range ``span``, or those that ``head`` adds to ``onto``, from their merge base.

    Raises:
        GitError, MalformedError: as ``commits_of_range`` does; also ``branch_has_nothing``.
    """
    # Imported late: only a review needs it.
    from gatewright.evidence.verification.commits import commits_of_range

    checkout = user_checkout(repository)
    if span is None:
        tip, target = checkout.commit_named(head), checkout.commit_named(onto)
        base = checkout.objects.execute("merge-base", target, tip, ok=(0, 1)).decode("ascii").strip()
        if not base:
            raise GitError(f"{head} and {onto} have no commit in common", code="no_common_history")
        span = f"{base}..{tip}"
    commits = commits_of_range(checkout, span)
    if not commits:
        raise GitError(f"there is no commit in {span}", code="branch_has_nothing")
    first, last = (checkout.resolve(end) for end in span.split(".."))
    written = checkout.objects.execute(
        "log", "--no-show-signature", "--no-mailmap", "-z", "--format=%an%x00%ae", last, f"^{first}"
    )
    fields = written.decode("utf-8", "replace").split("\0")[:-1]
    made = {author_line(*each): None for each in zip(fields[::2], fields[1::2], strict=True)}
    authors = tuple(made) if len(made) <= MOST_AUTHORS else ()  # without them, no person can vote
    return SourceBranch(name=head or span, head=last, base=first, commits=len(commits), authors=authors)


def candidate_names(given: str | None) -> tuple[str, ...]:
    """Return the names of the option; none if it is a number or was not given."""
    return () if given is None or _is_number(given) else tuple(name.strip() for name in given.split(","))


def candidate_count(given: str | None) -> int:
    """Return the number of candidates of the option; 1 if it was not given."""
    if given is None:
        return 1
    return int(given[:6]) if _is_number(given) else len(candidate_names(given))


def named_candidates(given: str, model: str | None, faults: list[Fault], *, fallback: bool) -> tuple[Executor, ...]:
    """Return one executor for each name. An invalid name is added to ``faults``.

    Args:
        given: the value of the option.
        model: model for agents without one of their own.
        faults: receives the faults.
        fallback: permit other models in place of the named ones.
    """
    found = []
    for number, name in enumerate(candidate_names(given)):
        agent, with_model, named = name.partition("=")
        try:
            found.append(_executor(agent, named if with_model else model, fallback=fallback))
        except msgspec.ValidationError:
            words = f"--candidates {name!r}: an agent is called like codex, with a model codex=MODEL; a model alone is =MODEL"
            faults.append(Fault(f"{_PLACE}/{number}", "invalid", words))
    return tuple(found)


def repeat_executor(executor: Executor, count: int, faults: list[Fault]) -> tuple[Executor, ...]:
    """Repeat the executor ``count`` times; commands and recorded replies have one maker each."""
    if EXECUTOR_KINDS[executor.kind].asked_anew:
        return (executor,) * count
    given = executor.commands or executor.artifacts
    if len(given) != count or executor.kind == "patch":
        words = f"--candidates {count} needs --agent, --model, or {count} times --exec or --reply, one for each candidate"
        faults.append(Fault(_PLACE, "ambiguous", words))
        return ()
    if executor.commands:
        return tuple(Executor(kind=executor.kind, commands=(command,)) for command in executor.commands)
    return tuple(Executor(kind=executor.kind, artifacts=(name,)) for name in executor.artifacts)


def candidate_contradictions(given: str | None, *, shards: int, others: bool) -> list[Fault]:
    """Return contradictions between the option and others. ``others``: another option names a maker, too."""
    if given is None:
        return []
    faults = []
    least, most = BOUNDS.least or 0, BOUNDS.most or 0
    if not least <= candidate_count(given) <= most:
        faults.append(Fault(_PLACE, "invalid", f"--candidates: at least {least} and at most {most}"))
    if shards > 1:
        words = "--candidates and --shards: each candidate makes the whole change, which is not split then"
        faults.append(Fault(_PLACE, "ambiguous", words))
    if others and candidate_names(given):
        words = f"--candidates names who makes the change: leave out {MAKER_FLAGS}"
        faults.append(Fault(_PLACE, "ambiguous", words))
    return faults


def _executor(agent: str, model: str | None, *, fallback: bool) -> Executor:
    """Build an executor. Raises msgspec.ValidationError for an invalid name."""
    if not agent and model is None:
        raise msgspec.ValidationError("no name")
    fields = {"kind": "agent" if agent else "model", "agent": None if agent == ANY_AGENT else agent or None, "model": model}
    return msgspec.convert(fields | {"fallback": fallback and model is not None}, Executor)


def _is_number(given: str) -> bool:
    return given.isascii() and given.isdigit()


#: Characters that make a path a pattern.
_PATTERN = frozenset("*?[]!{}\\")
#: End of a file's name, which folders hardly ever have; ``v1.2`` is a folder.
_FILE_ENDING = TextPattern(r"\.[A-Za-z][A-Za-z0-9]{0,9}")
_MOUNTS = "/environment/at"
_ARTIFACTS = "/artifacts"


def in_repository(given: str, repository: str, here: Path, pointer: str, faults: list[Fault]) -> str:
    """Return ``given`` relative to the top of the repository.

    An absolute path and one that begins with ``./`` come from shell completion. ``./`` means ``here`` if that is in the
    repository, else its top. Any other path is relative to the top already.
    """
    if not (given.startswith(("/", "./", "~/")) and len(given.strip("./")) > 0):
        return given
    top = Path(repository)
    start = here if here.resolve().is_relative_to(top.resolve()) else top
    path = Path(os.path.abspath(start / Path(given).expanduser()))  # noqa: PTH100 - links stay as given
    for one, other in ((path, top), (path.parent.resolve() / path.name, top.resolve())):
        if one.is_relative_to(other):
            return "." if one == other else str(one.relative_to(other)) + ("/" if given.endswith("/") else "")
    faults.append(Fault(pointer, "outside", f"{given} is not in the repository {repository}"))
    return given


def read_documents(paths: Sequence[Path], here: Path, faults: list[Fault]) -> tuple[tuple[str, bytes], ...]:
    """Return the documents of a search as attachments, named by their paths as given."""
    found: list[tuple[str, bytes]] = []
    for given in paths:
        try:
            size = (here / given).stat().st_size
            refuse_large(str(given), size, size + sum(len(content) for _, content in found))
            found.append((f"{DOCUMENT}{given}", (here / given).read_bytes()))
        except OSError as error:
            faults.append(Fault(_ARTIFACTS, "unreadable", f"{given} cannot be read: {error.strerror}"))
        except MalformedError as error:
            faults.append(Fault(_ARTIFACTS, error.reason, error.message))
    return tuple(found)


def repository_folder(given: str | None, here: Path) -> Path | None:
    """Return the local folder of ``--repo``, or of its default; None for anything else."""
    if given is None:
        return find_repository(here)
    path = here / Path(given).expanduser()
    return path if path.is_dir() else None


def names_test_file(path: str, repository: str, ref: str) -> bool:
    """Return whether ``path`` is the exact name of one test file: no folder, no pattern, and no file that sets tests up.

    ``conftest.py`` and the settings of runners affect every test, so they need ``--allow-tests``. A file that does not exist in
    ``ref`` is a test file if its name is that of a test, or if it is among tests and its name has the suffix of a file.
    """
    name = os.fsencode(path)
    if path.endswith("/") or not path.isprintable() or not _PATTERN.isdisjoint(path) or ".." in path.split("/"):
        return False
    if is_runner_setting(name) or name.rpartition(b"/")[2].lower() == b"conftest.py":
        return False
    if not (is_test(name) or is_test_data(name)):
        return False
    names_file = has_test_name(name) or _FILE_ENDING.fullmatch(PurePosixPath(path).suffix) is not None
    if not (repository.startswith("/") and Path(repository).is_dir()):
        return names_file
    kind = user_checkout(Path(repository)).objects.execute("cat-file", "-t", f"{ref}:{path}", ok=(0, 1, 128)).strip()
    return kind == b"blob" or (not kind and names_file)


def read_mounts(given: tuple[str, ...], repository: str, here: Path, faults: list[Fault]) -> list[ShownFolder]:
    """Read mounts: ``PATH`` shows a folder of the checkout in its own place, ``PATH=DIR`` shows another folder there.

    Invalid mounts are added to ``faults``.
    """
    found = []
    for each in given:
        known = len(faults)
        place, _, folder = each.partition("=")
        place = os.path.normpath(in_repository(place, repository, here, _MOUNTS, faults))
        if len(faults) > known:
            continue
        try:
            found.append(ShownFolder(_mount_folder(place, folder, repository, here), safe_place(place)))
        except (DeniedError, MalformedError, ConfigurationError) as error:
            faults.append(Fault(_MOUNTS, error.reason, f"--mount {each}: {error.message}"))
    return found


def _mount_folder(place: str, given: str, repository: str, here: Path) -> Path:
    """Resolve the folder of a mount.

    Raises:
        DeniedError: the repository tracks content of the folder.
        MalformedError: it is not a folder, or leads out of the checkout.
    """
    top = Path(repository)
    if not given and not top.is_dir():
        raise MalformedError("the repository is not on this host: give the folder, too (PATH=DIR)", code="not_local")
    folder = here / Path(given).expanduser() if given else top / place
    if not folder.is_dir():
        raise MalformedError(f"there is no folder {folder}", code="not_found")
    if not given and not folder.resolve().is_relative_to(top.resolve()):
        words = f"{folder} is a link that leads out of the repository: give the folder itself (--mount {place}=DIR)"
        raise MalformedError(words, code="outside")
    refuse_tracked_folder(folder)
    return folder.resolve()


def read_provided(given: tuple[str, ...], repository: str, here: Path, faults: list[Fault]) -> tuple[tuple[str, bytes], ...]:
    """Return name and content of each provided file; invalid ones are added to ``faults``."""
    found: dict[str, bytes] = {}
    if given and not Path(repository).is_dir():
        faults.append(Fault(_ARTIFACTS, "not_local", "--provide takes files of a repository on this host: clone it first"))
        return ()
    in_all = 0
    for each in given:
        known = len(faults)
        path = os.path.normpath(in_repository(each, repository, here, _ARTIFACTS, faults))
        if len(faults) > known:
            continue
        try:
            content = _read_provided(Path(repository), path)
            in_all += len(content)
            refuse_large(path, len(content), in_all)
        except (DeniedError, MalformedError) as error:
            faults.append(Fault(_ARTIFACTS, error.reason, f"--provide {each}: {error.message}"))
        except (OSError, ValueError) as error:
            words = error.strerror if isinstance(error, OSError) else str(error)
            faults.append(Fault(_ARTIFACTS, "unreadable", f"--provide {each} cannot be read: {words}"))
        else:
            found[PROVIDED + path] = content
    return tuple(found.items())


def _read_provided(top: Path, path: str) -> bytes:
    """Return the content of a regular file below ``top``, without following links that lead outside."""
    # Imported late: few runs need it.
    from gatewright.workspace.planting import refuse_unsafe

    refuse_unsafe(path.encode())
    place = top / path
    if not place.resolve(strict=True).is_relative_to(top.resolve()):
        raise MalformedError("it leads out of the repository", code="outside")
    if is_tracked(top, path):
        raise DeniedError("git tracks it, so it is part of the run already", code="place_not_free")
    file = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(file, "rb") as stream:  # noqa: PTH123 - a descriptor
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise MalformedError("it is no file", code="path_unusable")
        return stream.read(MOST_BYTES + 1)


def read_hidden(given: tuple[str, ...], here: Path, faults: list[Fault]) -> tuple[tuple[str, bytes], ...]:
    """Return name and content of each ``PATH=FILE``, relative to ``here``; invalid ones are added to ``faults``."""
    if not given:
        return ()
    # Imported late: few runs need it.
    from gatewright.workspace.planting import refuse_unsafe

    found: dict[str, bytes] = {}
    in_all = 0
    for each in given:
        path, equals, file = each.partition("=")
        if not equals or not path or not file:
            words = f"--hidden-file {each}: name its path and its file: PATH=FILE"
            faults.append(Fault(_ARTIFACTS, "path_unusable", words))
            continue
        path = os.path.normpath(path)
        try:
            refuse_unsafe(os.fsencode(path))
            with (here / Path(file).expanduser()).open("rb") as stream:
                content = stream.read(MOST_BYTES + 1)
            in_all += len(content)
            refuse_large(path, len(content), in_all)
        except (DeniedError, MalformedError) as error:
            faults.append(Fault(_ARTIFACTS, error.reason, f"--hidden-file {each}: {error.message}"))
        except (OSError, ValueError) as error:
            words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            faults.append(Fault(_ARTIFACTS, "unreadable", f"--hidden-file {each} cannot be read: {words}"))
        else:
            found[HIDDEN_PREFIX + path] = content
    return tuple(found.items())


async def written_files(
    top: Path, ref: str, provided: Sequence[str], note: Callable[[str], None]
) -> tuple[tuple[str, bytes], ...]:
    """Return path and content of the version files of the project at ``ref``, without those in ``provided``.

    Raises GitError, MalformedError (``bad_ref``).
    """
    # Imported late: no other run needs it.
    from gatewright.app.environments.baseline_tree import baseline_tree
    from gatewright.app.environments.version_files import version_after, version_file, version_files

    checkout = user_checkout(top)
    tree = await asyncio.to_thread(baseline_tree, checkout, ref)
    given = {posixpath.normpath(each) for each in provided}
    missing = [path for path in await version_files(tree) if path not in given]
    if not missing:
        return ()
    version = version_after(await asyncio.to_thread(_describe_ref, checkout, ref))
    for path in missing:
        note(f"{path} is what a build of the project writes: provided with version {version}, unless --provide has another")
    return tuple((path, version_file(version)) for path in missing)


def _describe_ref(checkout: UserCheckout, ref: str) -> str:
    words = ("describe", "--tags", "--long", "--match", "*[0-9]*", checkout.commit_named(ref))
    return checkout.objects.execute(*words, ok=(0, 128)).decode("utf-8", "replace")
