"""The families of a run's reason codes, as they were told when the codes were given; the table speaks where none was told."""

from __future__ import annotations

from collections.abc import Mapping

from gatewright.reasons import Family, family_of
from gatewright.run import events as e

#: By code.
ToldFamilies = Mapping[str, Family]


def told_after(told: ToldFamilies, payload: e.RunEvent) -> ToldFamilies:
    """The families after one more event: a gate's report and a role's error tell that of their code."""
    match payload:
        case e.GateJudged(report=said) | e.TaskFailed(error=said) if said.family is not None:
            return {**told, said.code: said.family}
        case _:
            return told


def failure_family(code: str, told: ToldFamilies) -> Family:
    """The family of the reason that a run ended with."""
    return family_of(code, told.get(code))
