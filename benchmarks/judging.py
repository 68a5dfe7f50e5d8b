"""A reviewer of two seconds and tests of two seconds on one candidate: asked together, and in turn.

``python -m benchmarks.judging [--rounds 5]``: a running stack whose reviewer asks a model by script that answers after two
seconds; each run's acceptance command sleeps for two. The policy pack ``low`` judges together, ``medium`` in turn here. Both
take turns, so that they see the same machine; the first of each is not counted. Seconds are from submitting to the bundle.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from msgspec.structs import replace

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.workload import IDENTITY, git, make_repository, make_request, succeeded
from gatewright import Client
from gatewright.app.cli.home import make_home
from gatewright.app.stack.supervisor import StackOptions, Supervisor
from gatewright.contracts.vocabulary import AcceptanceTest, Environment, PolicyPack
from gatewright.resources import policy_directory
from tests.models.provider import KEY, ScriptedProvider
from tests.models.turns import Say, Slow, Turn
from tests.structured.scripted import answering, write_models

SECONDS = 2.0
GOAL = 2.3
PREFIX = Path(sys.prefix)
_ADDED = re.compile(r"src/new/added[0-9]+\.py")
WAYS: dict[str, PolicyPack] = {"together": "low", "in_turn": "medium"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds: int = parser.parse_args().rounds
    with tempfile.TemporaryDirectory(prefix="gatewright-bench-") as folder, ScriptedProvider() as provider:
        provider.scripts["review"] = review
        found = asyncio.run(_measure(Path(folder), provider, rounds))
    sys.stdout.write(f"a reviewer of {SECONDS:g} s and tests of {SECONDS:g} s; goal together: {GOAL:g} s\n")
    for way, seconds in found.items():
        least, most = min(seconds), max(seconds)
        sys.stdout.write(f"{way:>9}: {statistics.median(seconds):.2f} s ({least:.2f} to {most:.2f}, {rounds} runs)\n")


def review(body: dict[str, Any]) -> Turn:
    """A verdict, after two seconds, on the one line that there is."""
    path = next(iter(_ADDED.findall(json.dumps(body))))
    line = {"path": path, "line": 1, "note": "it is there"}
    turn = answering({"verdict": "PASS", "summary": "It is there.", "evidence": [line]})(body)
    return Slow(SECONDS, turn) if isinstance(turn, Say) else turn


async def _measure(root: Path, provider: ScriptedProvider, rounds: int) -> dict[str, list[float]]:
    policies = root / "policies"
    shutil.copytree(policy_directory(), policies)
    write_models(policies, provider, {"reviewer": "review"})
    packs = json.loads((policies / "policy_packs.json").read_text())
    for way, pack in WAYS.items():
        packs[pack] = packs["low"] | {"judging": way}
    (policies / "policy_packs.json").write_text(json.dumps(packs))
    repository = make_repository(root / "repository")
    (repository / "sleeping.py").write_text(f"import time\n\ntime.sleep({SECONDS:g})\n")
    git(repository, "add", "sleeping.py")
    git(repository, *IDENTITY, "commit", "--quiet", "--message", "tests that take two seconds")
    home = root / "home"
    make_home(home)
    environment = {
        "PATH": os.environ["PATH"],
        "GATEWRIGHT_POLICIES": str(policies),
        "GATEWRIGHT_CONSULT": "reviewer",
        "SCRIPTED_KEY": KEY,
    }
    stack = Supervisor(StackOptions(home=home, base_environment=environment, workers=1, shared=True, environments=(PREFIX,)))
    await stack.start()
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    try:
        await stack.ready(60.0)
        async with Client.connect(stack.address) as client:
            for number in range(rounds + 1):
                for way, pack in WAYS.items():
                    seconds = await _one(client, repository, len(WAYS) * number + list(WAYS).index(way), pack)
                    found[way] += [seconds] if number else []
    finally:
        await stack.stop()
    return found


async def _one(client: Client, repository: Path, number: int, pack: PolicyPack) -> float:
    sleeping = AcceptanceTest(name="sleeping", cmd="python sleeping.py", must_pass=True)
    request = replace(
        make_request(repository, number), acceptance_tests=(sleeping,), policy_pack=pack, environment=Environment(str(PREFIX))
    )
    started = time.perf_counter()
    await succeeded(client, await client.submit_request(request, patience=5.0))
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
