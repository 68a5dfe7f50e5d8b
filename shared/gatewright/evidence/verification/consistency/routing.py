"""14. How much the change risks was told by the rules of the run's policy, before anything rested on it."""

from __future__ import annotations

from collections.abc import Iterator

from gatewright.errors import DeniedError
from gatewright.evidence import layout
from gatewright.evidence.verification.consistency.telling import Contradiction, Moment, Telling
from gatewright.rules.routing import is_due, path_kinds, route
from gatewright.run import events as e

ROUTING = "routing_contradicts"
#: The policy file that the rules come from.
FILE = "routing_rules.json"


def check_routing(telling: Telling) -> Iterator[Contradiction]:
    """1. the rules are there where the policy had any, and the changed paths lie where was recorded  2. the routing is the
    one that the rules make of the run, at its time  3. a person was asked, and the change landed, only after it."""
    accepted = telling.run.accepted
    if (accepted.routing is not None) != (FILE in accepted.policies):  # 1
        yield Contradiction(ROUTING, layout.EVENTS, layout.META, f"the rules of {FILE} and its digest are not both there")
    for moment in telling.moments:
        match moment.payload:
            case e.CandidateComposed():
                yield from _check_places(telling, moment, moment.payload)  # 1
            case e.ReviewRouted():
                yield from _check_routing(moment, moment.payload)  # 2
            case e.ApprovalRequested() | e.Landed() if is_due(moment.before):
                words = "it went on before it was told how much the change risks"
                yield moment.says(ROUTING, layout.EVENTS, layout.EVENTS, words)  # 3
            case _:
                pass


def _check_places(telling: Telling, moment: Moment, composed: e.CandidateComposed) -> Iterator[Contradiction]:
    rules, names = moment.before.accepted.routing, telling.names_of.get(composed.names)
    if rules is None:
        if composed.path_kinds is not None:
            yield moment.says(ROUTING, layout.EVENTS, layout.EVENTS, "paths are told by their risk, and no rule speaks of it")
        return
    # A round whose list of paths is not in the bundle was refused: nothing that landed rests on it.
    if names is not None and composed.path_kinds != path_kinds(rules, (path for path in names.split(b"\0") if path)):
        yield moment.says(ROUTING, layout.EVENTS, layout.NAMES, "the changed files do not lie where was recorded")


def _check_routing(moment: Moment, event: e.ReviewRouted) -> Iterator[Contradiction]:
    if not is_due(moment.before):
        yield moment.says(ROUTING, layout.REVIEW_ROUTING, layout.EVENTS, "there was nothing to be routed")
        return
    try:
        made = route(moment.before)
    except DeniedError as error:
        yield moment.says(ROUTING, layout.REVIEW_ROUTING, layout.EVENTS, error.message)
        return
    if made != event.routing:
        yield moment.says(ROUTING, layout.REVIEW_ROUTING, layout.EVENTS, "it is not what the rules make of the run")
