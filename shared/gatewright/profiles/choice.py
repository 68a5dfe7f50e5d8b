"""The choice of a request's profile. Pure; the pm that writes the contract and the gatekeeper that checks it share it.

1. The language that the request names. 2. The name of the model that it names (``rust-coder``). 3. The end of the
repository's name (``parser-rs``, ``tools-py``). 4. Programs named in its text and its acceptance commands (``cargo build``,
``pytest``).

The first step that gives exactly one language decides. If none does, commands see the environment of the request, or the
system.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from gatewright.contracts import RunRequest, TaskContract
from gatewright.contracts.vocabulary import Environment, EnvironmentProfile, Language, ProfileReason

if TYPE_CHECKING:
    # Its models take longer to build than everything here, and most importers choose nothing.
    from gatewright.profiles.policy import EnvironmentsPolicy

_NAMES: Final[Mapping[Language, frozenset[str]]] = {
    "python": frozenset({"python"}),
    "node": frozenset({"node", "nodejs", "javascript", "typescript"}),
    "go": frozenset({"go", "golang"}),
    "rust": frozenset({"rust"}),
    "java": frozenset({"java"}),
    "cpp": frozenset({"cpp", "cxx", "c++"}),
}
_ENDS: Final[Mapping[Language, frozenset[str]]] = {
    "python": frozenset({"py", "python"}),
    "node": frozenset({"js", "ts", "node"}),
    "go": frozenset({"go", "golang"}),
    "rust": frozenset({"rs", "rust"}),
    "java": frozenset({"java"}),
    "cpp": frozenset({"cpp", "cxx"}),
}
_WORDS: Final[Mapping[Language, tuple[str, ...]]] = {
    "python": ("pytest", "pip install", "python -m", "unittest"),
    "node": ("npm install", "npm ci", "npm test", "npm run", "yarn", "pnpm", "node --test", "jest"),
    "go": ("go build", "go test", "go mod", "go vet", "gofmt"),
    "rust": ("cargo build", "cargo test", "cargo check", "clippy", "rustc", "rustfmt"),
    "java": ("mvn", "maven", "gradle", "junit"),
    "cpp": ("cmake", "ctest", "ninja", "gcc", "clang"),
}


def chosen_profile(request: RunRequest, policy: EnvironmentsPolicy) -> EnvironmentProfile | None:
    """The profile of the language of ``request``; None where that is unclear, or the policy has none for it."""
    for reason, found in _signs(request):
        languages = set(found)
        if len(languages) == 1:
            profile = policy.profile(languages.pop())
            if profile is None:
                return None
            return EnvironmentProfile(
                language=profile.language, chosen_by=reason, prefix=profile.prefix, image=profile.image, tools=profile.tools
            )
    return None


def environment_of(request: RunRequest, profile: EnvironmentProfile | None) -> Environment | None:
    """Return the environment of the contract: the request's, else the prefix of the profile."""
    if request.environment is not None or profile is None or profile.prefix is None:
        return request.environment
    return Environment(prefix=profile.prefix)


def image_of(contract: TaskContract) -> str | None:
    """The image that commands of ``contract`` see in the place of the host's system: that of its profile, where it names no
    environment.
    """
    profile = contract.environment_profile
    return profile.image if profile is not None and contract.environment is None else None


def _signs(request: RunRequest) -> Iterator[tuple[ProfileReason, Iterable[Language]]]:
    if request.language is not None:
        yield "language", (request.language,)
    model = request.executor.model if request.executor is not None else None
    yield "model", _naming(_profile_words((model or "").replace("-", " ")), _NAMES)
    name = request.repository.url.rstrip("/").rpartition("/")[2].removesuffix(".git").lower()
    yield "repository", _naming(name.rpartition("-")[2:] if "-" in name else (), _ENDS)
    searched = " ".join((request.request, *(test.cmd for test in request.acceptance_tests)))
    text = f" {' '.join(_profile_words(searched))} "
    yield "request", (language for language, words in _WORDS.items() if any(f" {word} " in text for word in words))


def _naming(words: Iterable[str], names: Mapping[Language, frozenset[str]]) -> Iterator[Language]:
    found = set(words)
    return (language for language, own in names.items() if own & found)


def _profile_words(text: str) -> list[str]:
    """Return the words in lower case, with only the characters of program names and options."""
    return "".join(each if each.isalnum() or each in "+-" else " " for each in text.lower()).split()
