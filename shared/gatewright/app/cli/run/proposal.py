"""The test commands that are proposed to a caller of ``gatewright run`` who named none."""

from __future__ import annotations

from pathlib import Path

from gatewright.app.cli.home import find_repository
from gatewright.app.cli.user_git import user_checkout
from gatewright.errors import GatewrightError, GitError, MalformedError
from gatewright.order_form.run_options import RunOptions


async def proposed_tests(error: GatewrightError, options: RunOptions, here: Path) -> tuple[str, ...]:
    """The commands that test the baseline, the best one first, when ``error`` says that one is missing; else none."""
    missing = isinstance(error, MalformedError) and any(fault.pointer == "/acceptance_tests" for fault in error.faults)
    repository = find_repository(_place(options, here))
    if not missing or repository is None:
        return ()
    # Imported late: few runs need it.
    from gatewright.ecosystems.detection import proposed_commands
    from gatewright.git.host.tree_at import tree_at

    try:
        return await proposed_commands(tree_at(user_checkout(repository), options.ref))
    except GitError:  # the error says it already, or the run would
        return ()


def _place(options: RunOptions, here: Path) -> Path:
    return here / Path(options.repo).expanduser() if options.repo else here
