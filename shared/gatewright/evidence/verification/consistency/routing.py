"""14. The risk of the change was assessed by the rules of the run's policy, before anything relied on it."""

from __future__ import annotations

from collections.abc import Iterator

from gatewright.errors import DeniedError
from gatewright.evidence import layout
from gatewright.evidence.verification.consistency.replayed_run import Contradiction, Moment, ReplayedRun
from gatewright.rules.routing import is_due, path_kinds, route
from gatewright.run import events as e

ROUTING = "routing_contradicts"
#: Policy file of the rules.
FILE = "routing_rules.json"


def check_routing(replayed: ReplayedRun) -> Iterator[Contradiction]:
    """Check routing.

    1. Rules exist exactly when the policy has them, and the recorded kinds of changed paths are right.
    2. The routing follows from the rules at its time.
    3. Approval requests and the landing come after it.
    """
    accepted = replayed.run.accepted
    if (accepted.routing is not None) != (FILE in accepted.policies):  # 1
        yield Contradiction(ROUTING, layout.EVENTS, layout.META, f"the rules of {FILE} and its digest are not both there")
    for moment in replayed.moments:
        match moment.payload:
            case e.CandidateComposed():
                yield from _check_places(replayed, moment, moment.payload)  # 1
            case e.ReviewRouted():
                yield from _check_routing(moment, moment.payload)  # 2
            case e.ApprovalRequested() | e.Landed() if is_due(moment.before):
                words = "it continued before the risk of the change was assessed"
                yield moment.contradiction(ROUTING, layout.EVENTS, layout.EVENTS, words)  # 3
            case _:
                pass


def _check_places(replayed: ReplayedRun, moment: Moment, composed: e.CandidateComposed) -> Iterator[Contradiction]:
    rules, names = moment.before.accepted.routing, replayed.names_of.get(composed.names)
    if rules is None:
        if composed.path_kinds is not None:
            yield moment.contradiction(ROUTING, layout.EVENTS, layout.EVENTS, "paths have recorded kinds without a rule")
        return
    # A round whose list of paths is missing in the bundle was refused: no landing relies on it.
    if names is not None and composed.path_kinds != path_kinds(rules, (path for path in names.split(b"\0") if path)):
        yield moment.contradiction(ROUTING, layout.EVENTS, layout.NAMES, "the changed files do not lie where was recorded")


def _check_routing(moment: Moment, event: e.ReviewRouted) -> Iterator[Contradiction]:
    if not is_due(moment.before):
        yield moment.contradiction(ROUTING, layout.REVIEW_ROUTING, layout.EVENTS, "there was nothing to be routed")
        return
    try:
        made = route(moment.before)
    except DeniedError as error:
        yield moment.contradiction(ROUTING, layout.REVIEW_ROUTING, layout.EVENTS, error.message)
        return
    if made != event.routing:
        yield moment.contradiction(ROUTING, layout.REVIEW_ROUTING, layout.EVENTS, "it is not what the rules make of the run")
