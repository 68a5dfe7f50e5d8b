"""A new round of an ended run: the same request on the current target, with the reason why the earlier run did not land."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from gatewright.clock import new_id
from gatewright.contracts import RunRequest
from gatewright.errors import Fault, MalformedError
from gatewright.run.state import Run

#: Begins the paragraph about the earlier run, which a later round replaces.
_EARLIER: Final = "\n\nAn earlier run of this request did not land: "


def again_request(run: Run, requested_by: str) -> RunRequest:
    """Return the request of a new round of ``run``.

    It starts from the target where the change was to go there, and else from where the request started. Its words name the
    reason for which the earlier run did not land, so that an agent can take that into account.

    Raises:
        MalformedError: the run landed, is open, or was ordered by a contract (``invalid_input``).
    """
    words = ""
    if run.request is None:
        words = "was ordered by a contract: submit that contract again with a new baseline"
    elif not run.ended:
        words = "has not ended"
    elif run.failure is None:
        words = "landed"
    if run.request is None or run.failure is None or words:
        fault = Fault("/again", "invalid", f"{run.run_id} {words}")
        raise MalformedError("this cannot be run", faults=(fault,), code="invalid_input")
    request, repository = run.request, run.request.repository
    asked, _, _ = request.request.partition(_EARLIER)
    return replace(
        request,
        request=f"{asked}{_EARLIER}{run.run_id} ended with {run.failure.code}: {run.failure.message}",
        baseline_ref=(repository.moves_target and repository.target_ref) or request.baseline_ref,
        requested_by=requested_by,
        again=run.run_id,
        idempotency_key=new_id(),
    )
