"""``gatewright run``: from options to a session and a flow."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from gatewright.app.cli.context import find_place
from gatewright.app.cli.home import make_home
from gatewright.app.cli.outcome import Exit, exit_of_error
from gatewright.app.cli.output import complain, note, printable, say
from gatewright.app.cli.run.auto_environment import with_environment
from gatewright.app.cli.run.command_line import command_line
from gatewright.app.cli.run.display import make_display
from gatewright.app.cli.run.preflight import require_sandbox, uncommitted_words
from gatewright.app.cli.run.proposal import proposed_tests
from gatewright.app.cli.run.proposing import can_propose, confirmed, key_lines, leaves_open, proposal_lines, with_origin
from gatewright.app.cli.run.request import EXAMPLE, RunOptions, prepare
from gatewright.app.cli.run.run_flow import RunFlow
from gatewright.app.cli.runs.result import refused
from gatewright.app.cli.runs.retry import retry_line
from gatewright.app.cli.runs.view import RunView
from gatewright.app.cli.session import for_one_run
from gatewright.app.cli.settings import inherited_environment, model_keys
from gatewright.app.stack.state import read
from gatewright.app.stack.supervisor import StackOptions
from gatewright.ecosystems.detection import first_way
from gatewright.errors import GatewrightError


async def start_run(options: RunOptions, workers: int | None, *, json_output: bool) -> Exit:
    """Check the options, then carry out the run. The exit code; errors are reported in the form that was asked for.

    What leaves something open is proposed first; with ``options.yes`` the proposal is run as well.
    """
    code, view = await _run_once(options, workers, json_output=json_output)
    if view is None or not view.proposed or not options.yes:
        return code
    if not json_output:
        say("proposed, and run because of --yes:")
        for line in proposal_lines(view.proposed):
            say(line)
    code, _ = await _run_once(confirmed(options, view.proposed), workers, json_output=json_output, origin=view)
    return code


async def _run_once(
    options: RunOptions, workers: int | None, *, json_output: bool, origin: RunView | None = None
) -> tuple[Exit, RunView | None]:
    display = make_display(json_output=json_output, command=command_line(options, workers))
    try:
        place = find_place()
        options = await with_environment(options, place, display.note)
        propose = leaves_open(options) and can_propose()
        prepared = prepare(options, place.here, on_this_host=place.bus is None, propose=propose)
        prepared = prepared if origin is None else with_origin(prepared, origin)
        if place.bus is None:
            if read(place.home) is None:
                # The roles of a stack that runs have tried it when they started.
                await require_sandbox()
            make_home(place.home, place.here)
    except GatewrightError as error:
        tests = await proposed_tests(error, options, find_place().here)
        retry_with = tuple(word for each in first_way(tests) for word in ("--test", each))
        display.give_up(refused(error, retry_with))
        if not json_output:
            complain(error)
            for each in tests:
                say(f"  detected  {printable(each)}", stream=sys.stderr)
            if tests:
                line = retry_line(command_line(options, workers), retry_with)
                say(f"  retry with: {printable(line)}", stream=sys.stderr)
            elif any(fault.code == "missing" for fault in getattr(error, "faults", ())):
                say(f"  example: {EXAMPLE}", stream=sys.stderr)
            if leaves_open(options) and error.reason == "invalid_input":
                for each in key_lines():
                    say(f"  {printable(each)}", stream=sys.stderr)
        return exit_of_error(error), None
    if words := uncommitted_words(prepared.request.repository.url, options.ref):
        note(words)
    environment = prepared.request.environment
    stack = StackOptions(
        home=place.home,
        base_environment=inherited_environment(),
        model_keys=model_keys(),
        workers=workers or min(options.shards, os.cpu_count() or 1),
        environments=tuple(Path(each.prefix) for each in environment.all) if environment is not None else (),
        adopt=True,
    )
    session = for_one_run(place.bus, stack, display.note)
    flow = RunFlow(prepared, session, display, json_output=json_output)
    return await flow.carry_out(), flow.view
