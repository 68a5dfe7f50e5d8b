"""Globs as runners and package managers of Node write them."""

from __future__ import annotations


def glob_pattern(operand: str) -> str:
    """A glob of a shell or a runner as a pattern; ``**`` may be no folder at all."""
    found: list[str] = []
    at = 0
    while at < len(operand):
        if operand.startswith("**/", at):
            found.append("(?:.*/)?")
            at += 3
            continue
        sign = operand[at]
        if operand.startswith("**", at):
            found.append(".*")
            at += 1
        elif sign == "*":
            found.append("[^/]*")
        elif sign == "?":
            found.append("[^/]")
        elif sign in "{}":
            found.append("(?:" if sign == "{" else ")")
        elif sign == ",":
            found.append("|" if "{" in operand else ",")
        elif sign.isalnum() or sign in "/_-":
            found.append(sign)
        else:
            found.append(f"\\{sign}" if sign.isascii() and sign not in "[]" else ".")
        at += 1
    pattern = "".join(found)
    return pattern if pattern.count("(") == pattern.count(")") else "[^\\s\\S]"
