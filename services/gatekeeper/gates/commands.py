"""The command gate: argv only, on the allowlist, without the flags that would change what the command is."""

from __future__ import annotations

from gatewright.errors import CommandRefusedError
from gatewright.sandbox.argv import parse_command
from services.gatekeeper.policies import CommandRule, Policies, Use


def check_command(text: str, use: Use, policies: Policies, *, strict: bool = False) -> CommandRule:
    """The rule that allows ``text`` for ``use``.

    1. The text is a plain argv: no shell syntax.  2. The program is named, not a path.  3. No forbidden run of words.
    4. A rule's prefix matches (the longest wins).  5. None of its refused flags.  6. A script rule runs a script of the
    workspace.  7. With ``strict``, an acceptance command that proves nothing is refused.

    Raises CommandRefusedError (codes ``command_not_allowed``, ``action_forbidden``).
    """
    argv = parse_command(text)  # 1
    if "/" in argv[0] or argv[0].startswith("-"):  # 2
        raise CommandRefusedError(f"{text!r}: the program must be a plain name, not a path")
    for action in policies.forbidden.actions:  # 3
        if _contains(argv, action.argv):
            raise CommandRefusedError(f"{text!r} contains the forbidden action {action.name!r}", code="action_forbidden")
    plain = ("python", *argv[1:]) if argv[0] == "python3" else argv
    matching = [r for r in policies.allowlist.commands if use in r.uses and plain[: len(r.prefix)] == r.prefix]  # 4
    if not matching:
        raise CommandRefusedError(f"{text!r} is not on the allowlist for {use} commands")
    rule = max(matching, key=lambda candidate: len(candidate.prefix))
    rest = argv[len(rule.prefix) :]
    for word in rest:  # 5
        for flag in rule.refused_flags:
            if _is_flag(word, flag):
                raise CommandRefusedError(f"{text!r}: {' '.join(rule.prefix)} may not be given {flag}")
    if rule.script:  # 6
        _check_script(text, rest)
    if strict and rule.trivial and use == "acceptance":  # 7
        raise CommandRefusedError(f"{text!r} proves nothing, and the contract asks for strict acceptance")
    return rule


def _contains(argv: tuple[str, ...], words: tuple[str, ...]) -> bool:
    return any(argv[start : start + len(words)] == words for start in range(len(argv) - len(words) + 1))


def _is_flag(word: str, flag: str) -> bool:
    if word == flag or word.startswith(f"{flag}="):
        return True
    # -cFILE is -c FILE for every tool that takes short options; a lone "-" (standard input) has no such form.
    return len(flag) == 2 and flag != "--" and not word.startswith("--") and word.startswith(flag)


def _check_script(text: str, rest: tuple[str, ...]) -> None:
    script = next((word for word in rest if not word.startswith("-")), None)
    if script is None:
        raise CommandRefusedError(f"{text!r}: an interpreter needs a script of the repository")
    if script.startswith("/") or ".." in script.split("/"):
        raise CommandRefusedError(f"{text!r}: the script must lie in the repository")
