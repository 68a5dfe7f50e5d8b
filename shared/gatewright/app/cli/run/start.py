"""``gatewright run``: from options to a session and a flow."""

from __future__ import annotations

import os
import sys

from gatewright.app.cli.context import find_place
from gatewright.app.cli.home import make_home
from gatewright.app.cli.outcome import Exit, exit_of_error
from gatewright.app.cli.output import complain, note, printable, say
from gatewright.app.cli.run.auto_environment import with_environment
from gatewright.app.cli.run.command_line import command_line
from gatewright.app.cli.run.display import make_display
from gatewright.app.cli.run.preflight import require_sandbox, uncommitted_words
from gatewright.app.cli.run.proposal import proposed_tests
from gatewright.app.cli.run.request import EXAMPLE, RunOptions, environment_prefix, prepare
from gatewright.app.cli.run.run_flow import RunFlow
from gatewright.app.cli.runs.result import refused
from gatewright.app.cli.runs.retry import retry_line
from gatewright.app.cli.session import for_one_run
from gatewright.app.cli.settings import inherited_environment
from gatewright.app.stack.state import read
from gatewright.app.stack.supervisor import StackOptions
from gatewright.ecosystems.detection import first_way
from gatewright.errors import GatewrightError


async def start_run(options: RunOptions, workers: int | None, *, json_output: bool) -> Exit:
    """Check the options, then carry out the run. The exit code; errors are reported in the form that was asked for."""
    display = make_display(json_output=json_output, command=command_line(options, workers))
    try:
        place = find_place()
        options = await with_environment(options, place, display.note)
        prepared = prepare(options, place.here, on_this_host=place.bus is None)
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
        return exit_of_error(error)
    if words := uncommitted_words(prepared.request.repository.url, options.ref):
        note(words)
    stack = StackOptions(
        home=place.home,
        base_environment=inherited_environment(),
        workers=workers or min(options.shards, os.cpu_count() or 1),
        environments=tuple(environment_prefix(prefix, place.here) for prefix in options.env),
        adopt=True,
    )
    session = for_one_run(place.bus, stack, display.note)
    return await RunFlow(prepared, session, display, json_output=json_output).carry_out()
