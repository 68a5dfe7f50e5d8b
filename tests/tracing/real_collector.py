"""A run into a collector that is not ours, and the picture of what arrived: ``make trace``.

The collector is Arize Phoenix, which keeps what comes by OTLP and tells it again, in an environment of its own, on free
ports. Every name and attribute that it then has is held against the pinned conventions.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gatewright.resources import policy_directory
from tests.deploy.test_prometheus import free_port
from tests.e2e.stack import running_stack, wait_until
from tests.e2e.test_sentence import PLAN, PROJECT, PROPOSAL, REVIEW, ThinkingStack, run, write
from tests.models.provider import KEY, ScriptedProvider
from tests.structured.scripted import answering, write_models
from tests.tracing.drawing import DrawnSpan, drawn
from tests.tracing.test_conventions import unknown_names
from tests.waiting import PATIENCE

START_SECONDS = 120.0
#: What Phoenix adds for views of its own, from the names that begin with ``gen_ai.``.
_ADDED = ("llm.", "openinference.", "output.")


@contextlib.contextmanager
def running_phoenix(folder: Path, program: str) -> Iterator[str]:
    """The collector for the time of a block; what it keeps lies in the folder."""
    port = free_port()
    settings = {
        "PHOENIX_WORKING_DIR": str(folder),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(free_port()),
        "PHOENIX_TELEMETRY_ENABLED": "false",
        "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
    }
    base = f"http://127.0.0.1:{port}"
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([program, "serve"], env=os.environ | settings, stdout=log, stderr=log)
        try:
            wait_until(lambda: answers(base), START_SECONDS)
            yield base
        finally:
            process.terminate()
            process.wait()


def answers(base: str) -> bool:
    with contextlib.suppress(OSError):
        return bool(ask(base, "projects"))
    return False


def ask(base: str, path: str) -> Any:
    with urllib.request.urlopen(f"{base}/v1/{path}", timeout=30) as answer:  # noqa: S310 - our own process, on loopback
        return json.load(answer)


def landed(folder: Path, base: str) -> str:
    """A sentence that becomes a change, told to the collector; returns the trace id that its bundle has."""
    project = folder / "project"
    for name, content in PROJECT.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_bytes(content)
    person = ("-c", "user.name=A. Person", "-c", "user.email=person@example.org")
    for words in (("init", "-q", "-b", "main"), ("add", "."), (*person, "commit", "-q", "-m", "first")):
        subprocess.run(("git", *words), cwd=project, check=True)
    with ScriptedProvider() as provider:
        shutil.copytree(policy_directory(), folder / "policies")
        write_models(folder / "policies", provider, {"pm": "pm", "techlead": "plan", "reviewer": "review", "worker": "write"})
        executor = {"kind": "model", "model": "write-model"}
        provider.scripts.update(
            pm=answering(PROPOSAL | {"executor": executor}), plan=answering(PLAN), review=answering(REVIEW), write=write
        )
        more = {
            "GATEWRIGHT_POLICIES": str(folder / "policies"),
            "GATEWRIGHT_CONSULT": "pm,techlead,reviewer",
            "SCRIPTED_KEY": KEY,
            "GATEWRIGHT_TRACES": "otlp",
            "OTEL_EXPORTER_OTLP_ENDPOINT": base,
        }
        stack = ThinkingStack(folder / "home", more)
        with running_stack(folder / "home", workers=2, stack=stack):
            code, result = run(stack, project, "--yes", "--shards", "2", "--max-retries", "1")
        assert code == 0, result
    return (Path(result["bundle"]) / "trace" / "trace_id.txt").read_text().strip()


def main(program: str, picture: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "phoenix").mkdir()
        with running_phoenix(folder / "phoenix", program) as base:
            trace_id = landed(folder, base)
            wait_until(lambda: any(span.name.startswith("run ") for span in received(base, trace_id)), PATIENCE)
            spans = received(base, trace_id)
    sent = {name for span in spans for name in span.attributes if not name.startswith(_ADDED)}
    unknown = unknown_names(sent)
    assert unknown == set(), unknown
    known = {span.span_id for span in spans}
    loose = sorted(span.name for span in spans if span.parent not in known)
    assert [name.partition(" ")[0] for name in loose] == ["run"], loose
    picture.write_text(drawn(spans), "utf-8")
    sys.stdout.write(f"{len(spans)} spans of trace {trace_id}, {len(sent)} names, all known\n")


def received(base: str, trace_id: str) -> list[DrawnSpan]:
    """What the collector has of a trace."""
    found = ask(base, "projects/default/spans/otlpv1?limit=1000")["data"]
    return [
        DrawnSpan(
            span["name"],
            span["span_id"],
            span.get("parent_span_id") or "",
            int(span["start_time_unix_nano"]),
            int(span["end_time_unix_nano"]),
            {each["key"]: next(iter(each["value"].values()), None) for each in span["attributes"]},
        )
        for span in found
        if span["trace_id"] == trace_id
    ]


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
