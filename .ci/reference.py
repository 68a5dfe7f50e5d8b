"""Rewrite the generated blocks of the documentation, or check that they are current.

    python .ci/reference.py            # rewrite every stale block
    python .ci/reference.py --check    # list the stale pages; exit 1 if there are any

A block stands between `<!-- generated: NAME -->` and `<!-- end generated -->`, each on a line of its own. `PROVIDERS` maps each
name to the function that renders the block: add a row there to add a block. `--docs FOLDER` names other pages than `docs`.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, get_args

import yaml
from typer.core import TyperGroup
from typer.main import get_command

from gatewright.app.asyncapi.channels import Channel, system_channels
from gatewright.app.cli.app import ProgramHelp, app
from gatewright.app.cli.help_screen import summary_of
from gatewright.bus import topology as t
from gatewright.bus.identities import MIRROR, STANDING
from gatewright.bus.permissions import Access, access_of, service_subjects
from gatewright.bus.subjects import matches
from gatewright.contracts import OrchestratorEvent, codec
from gatewright.contracts.reports import GateName
from gatewright.ecosystems.registry import DIRECT
from gatewright.evidence import layout
from gatewright.order_form.rows import Kind, Panel, Row
from gatewright.order_form.run_options import order_rows
from gatewright.policy_files import POLICY_FILES
from gatewright.telemetry import metric_list as m

ROOT = Path(__file__).resolve().parent.parent
SCHEMAS = ROOT / "shared" / "schemas"
ALERTS = ROOT / "deploy" / "monitoring" / "alerts.yml"
CONFORMANCE = ROOT / "docs" / "conformance.yaml"
BLOCK = re.compile(r"^(<!-- generated: ([\w-]+) -->\n)(.*?)^(<!-- end generated -->)$", re.MULTILINE | re.DOTALL)
OPENING = "<!-- generated:"
#: A placeholder for the name of a publisher, in identities and subjects.
ANY = "name"
PUBLISHERS = (t.DEFAULT_PUBLISHER, ANY)


# Markdown


def table(columns: tuple[str, ...], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table; escape `|` inside cells."""
    lines = [columns, ("---",) * len(columns), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def code(texts: Iterable[str]) -> str:
    return ", ".join(f"`{text}`" for text in texts)


def braced(subjects: Iterable[str]) -> list[str]:
    """The same subjects in fewer patterns: `gw.runs` and `gw.status` become `gw.{runs,status}`."""
    left, patterns = list(dict.fromkeys(subjects)), []
    while left:
        first = left[0].split(".")
        groups = [
            [each for each in left if _without(each, place) == _without(left[0], place)] for place in range(1, len(first))
        ]
        place, group = max(enumerate(groups, 1), key=lambda pair: len(pair[1]), default=(0, left[:1]))
        if len(group) > 1:
            first[place] = "{" + ",".join(each.split(".")[place] for each in group) + "}"
        patterns.append(".".join(first))
        left = [each for each in left if each not in group]
    return patterns


def _without(subject: str, place: int) -> list[str]:
    tokens = subject.split(".")
    return [*tokens[:place], *tokens[place + 1 :], str(len(tokens))]


# Metrics and alerts


def metrics() -> str:
    return _metric_table(m.METRICS)


def expiry_metrics() -> str:
    return _metric_table(m.EXPIRY_METRICS)


def forge_metrics() -> str:
    return _metric_table(m.FORGE_METRICS)


def _metric_table(listed: Iterable[m.Metric]) -> str:
    rows = ((f"`{each.name}`", each.kind, code(each.labels) or "none", each.help) for each in listed)
    return table(("metric", "type", "labels", "meaning"), rows)


def metric_labels() -> str:
    values = {
        "`role`": t.ROLES,
        "`queue`": get_args(m.QueueName),
        "`class`": get_args(m.QueueClass),
        "`stage`": get_args(m.Stage),
        "`gate`": get_args(GateName),
        "`outcome` of a task": get_args(m.TaskOutcome),
        "`outcome` of a run": get_args(m.RunOutcome),
        "`outcome` of a submission": get_args(m.SubmissionOutcome),
        "`outcome` of a claim": get_args(m.ClaimOutcome),
        "`during`": get_args(m.SandboxUse),
        "`room`": get_args(m.PublisherRoom),
    }
    return table(("label", "values"), ((label, code(listed)) for label, listed in values.items()))


def alerts() -> str:
    rules = [rule for group in yaml.safe_load(ALERTS.read_text("utf-8"))["groups"] for rule in group["rules"]]
    rows = (
        (
            f"[{rule['alert']}](runbook.md#{rule['alert'].lower()})",
            rule["labels"]["severity"],
            rule.get("for", "at once"),
            _summary(rule["annotations"]["summary"]),
        )
        for rule in rules
    )
    return table(("alert", "severity", "after", "summary"), rows)


def _summary(text: str) -> str:
    """The summary of a rule, with its templates as placeholders."""
    text = re.sub(r"\{\{ \$labels\.(\w+) \}\}", r"*\1*", text)
    return re.sub(r"\{\{ \$value[^}]*\}\}", "*N*", text)


# The bus


def accesses() -> dict[str, Access]:
    """Return the access of every identity, by its name in the tables."""
    named = {identity: access_of(identity, publishers=PUBLISHERS) for identity in STANDING}
    return {
        **named,
        f"publisher-<{ANY}>": access_of(f"publisher-{ANY}", publishers=PUBLISHERS),
        MIRROR: access_of(MIRROR, publishers=PUBLISHERS),
    }


def bus_streams() -> str:
    own = (t.intake_stream(ANY), t.upload_stream(ANY))
    columns = ("stream", "subjects", "content", "kept", "limits", "consumer")
    return table(columns, (_stream_row(each) for each in (*t.STREAMS, *own)))


def _stream_row(stream: t.StreamSpec) -> tuple[str, ...]:
    limits = []
    if stream.max_bytes > 0:
        unit, name = (1 << 30, "GiB") if stream.max_bytes >= 1 << 30 else (1 << 20, "MiB")
        limits.append(f"{stream.max_bytes // unit} {name}")
    if stream.max_messages > 0:
        limits.append(f"{stream.max_messages:,} messages")
    if stream.max_per_subject > 0:
        limits.append(f"{stream.max_per_subject:,} per subject")
    kept = f"{stream.keep_seconds / 86_400:g} days" if stream.keep_seconds else "for good"
    queues = t.consumers(publishers=(ANY,))
    durables = [queue.durable for queue in queues if queue.stream == stream.name]
    if stream.name == "TASKS":
        durables = ["<role>-<pool>-<class>"]
    return (
        f"`{_placeholder(stream.name)}`",
        code(map(_placeholder, stream.subjects)),
        stream.description,
        "until settled" if stream.retention == "workqueue" else kept,
        ", ".join(limits) or "none",
        code(map(_placeholder, durables)),
    )


def _placeholder(text: str) -> str:
    """Replace the placeholder of a publisher by `<name>`."""
    return re.sub(rf"(?<=[._-]){ANY}(?=\.|$)", f"<{ANY}>", text)


def bus_subjects() -> str:
    """Return the table of subjects. Named publishers append their name to those of `publisher` and have no rows."""
    known = accesses()
    columns = ("subject", "documents", "reply", "from", "to", "stream")
    listed = (each for each in system_channels() if not each.key.endswith("-named"))
    return table(columns, (_subject_row(each, known) for each in listed))


def _subject_row(channel: Channel, known: dict[str, Access]) -> tuple[str, ...]:
    subjects = set(_instances(channel))
    senders, receivers = _senders(subjects, known), _receivers(subjects, known)
    stored = (each.name for each in (*t.STREAMS, t.upload_stream(ANY)) if _covers(each.subjects, subjects))
    address = re.sub(r"\{(\w+)\}", r"<\1>", channel.address)
    return (
        f"`{address}`",
        code(channel.payloads),
        code(channel.answers),
        code(senders),
        code(receivers),
        code(_placeholder(name) for name in stored if name != f"INTAKE_{t.OPERATOR_PUBLISHER}"),
    )


def _senders(subjects: set[str], known: dict[str, Access]) -> list[str]:
    """Return the identities that may publish on one of the subjects."""
    return [name for name, access in known.items() if _covers((*access.publish, *access.peer_sends), subjects)]


def _receivers(subjects: set[str], known: dict[str, Access]) -> list[str]:
    """Return the identities that may receive from one of the subjects."""
    return [
        name
        for name, access in known.items()
        if _covers((*access.hear, *access.peer_receives, *access.serve, *(queue.subject for queue in access.queues)), subjects)
    ]


def _instances(channel: Channel) -> Iterator[str]:
    """Subjects of a channel, with every value of a parameter that decides who may use it."""
    values = {
        "publisher": (t.DEFAULT_PUBLISHER, ANY, t.OPERATOR_PUBLISHER),
        "role": t.ROLES,
        "writer": (*t.ROLES, "operator"),
        "class": t.TASK_CLASSES,
        "pool": (t.DEFAULT_POOL,),
        "verb": ("PING", "INFO", "STATS"),
        "service": tuple(f"gw-{role}" for role in t.ROLES),
    }
    names = channel.parameters
    for chosen in product(*(values.get(name, ("x",)) for name in names)):
        address = channel.address
        for name, value in zip(names, chosen, strict=True):
            address = address.replace(f"{{{name}}}", value)
        yield address


def _covers(patterns: Iterable[str], subjects: set[str]) -> bool:
    return any(matches(pattern, subject) for pattern in patterns for subject in subjects)


def bus_permissions() -> str:
    columns = ("identity", "publishes", "receives, answers", "JetStream", "connections, subscriptions of each")
    return table(columns, (_permission_row(name, access) for name, access in accesses().items()))


def _permission_row(name: str, access: Access) -> tuple[str, ...]:
    found = set(service_subjects(name)) if name in t.TASK_ROLES else set()
    serves = [each for each in access.serve if each not in found]
    received = code(braced(map(_placeholder, (*access.hear, *access.peer_receives, *serves))))
    limits = f"{access.limits.connections:,}, {access.limits.subscriptions:,}"
    if access.limits.payload:
        limits += f"; {access.limits.payload} bytes of a request"
    return (
        f"`{name}`",
        code(braced(map(_placeholder, (*access.publish, *access.peer_sends)))),
        ", ".join(filter(None, (received, "services protocol" if found else ""))),
        "; ".join(f"{act} {which}" for act, which in _jetstream(access).items()),
        limits,
    )


#: Prefixes of JetStream API calls by their effect; the next token is the stream.
_ACTS = {
    "pull": ("CONSUMER.MSG.NEXT.",),
    "read": ("STREAM.MSG.GET.", "DIRECT.GET."),
    "replicate": ("CONSUMER.CREATE.",),
    "inspect": ("STREAM.INFO.",),
    "create": ("STREAM.CREATE.",),
    "change": ("STREAM.UPDATE.",),
    "back up, restore": ("STREAM.SNAPSHOT.",),
    "purge": ("STREAM.PURGE.",),
    "delete messages of": ("STREAM.MSG.DELETE.",),
    "pause queues of": ("CONSUMER.PAUSE.",),
}


def _jetstream(access: Access) -> dict[str, str]:
    every = {*t.stream_names(), *(each.name for name in PUBLISHERS for each in t.publisher_streams(name))}
    acts = {}
    for act, prefixes in _ACTS.items():
        calls = (call.removeprefix(prefix) for call in access.calls() for prefix in prefixes if call.startswith(prefix))
        streams = dict.fromkeys(call.partition(".")[0] for call in calls)
        if act == "pull":
            streams = dict.fromkeys(queue.stream for queue in access.queues)
        # Only the mirror replicates. Others create consumers of queues or replays, which the other acts show.
        if act == "replicate" and access.identity != MIRROR:
            continue
        if streams:
            acts[act] = "all streams" if set(streams) == every else code(map(_placeholder, streams))
    return acts


# Documents


#: A placeholder for the id of a task, request or gate in a path of a bundle.
ID = "ID"
#: A path of each kind of file in a bundle.
BUNDLE_FILES = (
    *layout.REQUIRED,
    layout.REQUEST,
    layout.REVIEW_ROUTING,
    layout.PROGRESS_PACKET,
    layout.task_contract(ID),
    layout.task_result(ID),
    layout.task_error(ID),
    layout.task_plan(ID),
    layout.review(ID),
    layout.test(ID),
    layout.gate_report(1, ID, None).replace("001", ID),
    layout.approval_request(ID),
    layout.approval_decision(ID, 1),
    layout.approval_grant(ID),
    layout.summons_question(ID),
    layout.summons_answer(ID),
)


def documents() -> str:
    """List every document with its use. One without subject and file is a part of another document, or a separate file."""
    known = {name: access for name, access in accesses().items() if name not in {f"publisher-<{ANY}>", MIRROR}}
    channels = [each for each in system_channels() if not each.key.endswith("-named")]
    files: dict[type[object], list[str]] = {OrchestratorEvent: [layout.EVENTS]}
    for path in BUNDLE_FILES:
        kind = layout.kind_of(path)
        if kind is not None:
            files.setdefault(kind, []).append(path.replace(ID, "*"))
    rows = (
        (f"`{name}`", _sentence(kind.__doc__ or ""), *_crossings(name, channels, known), code(files.get(kind, ())))
        for name, kind in sorted(codec.DOCUMENTS.items())
    )
    return table(("document", "meaning", "subject", "sent by", "received by", "file in a bundle"), rows)


def _sentence(docstring: str) -> str:
    """The first sentence of a docstring, in Markdown."""
    words = " ".join(docstring.split("\n\n", maxsplit=1)[0].split()).replace("``", "`")
    return re.split(r"\. (?=[A-Z])", words)[0].rstrip(".")


def _crossings(name: str, channels: list[Channel], known: dict[str, Access]) -> tuple[str, str, str]:
    """Return the subjects that carry a document, its senders and its receivers. A reply uses the subject of its request.

    Operators may republish documents of others; they are listed only if no other identity sends a document.
    """
    subjects: list[str] = []
    replies: list[str] = []
    senders: list[str] = []
    receivers: list[str] = []
    for channel in channels:
        asking, asked = _senders(set(_instances(channel)), known), _receivers(set(_instances(channel)), known)
        address = re.sub(r"\{(\w+)\}", r"<\1>", channel.address)
        if name in channel.payloads:
            subjects.append(address)
            senders, receivers = [*senders, *asking], [*receivers, *asked]
        if name in channel.answers:
            replies.append(address)
            senders, receivers = [*senders, *asked], [*receivers, *asking]
    answering = "replies" if name == "error.v1" else f"reply of {code(replies)}"
    places = [code(braced(subjects)), answering if replies else ""]
    sending = [each for each in dict.fromkeys(senders) if each != "operator"] or senders
    return ", ".join(filter(None, places)), code(sending), code(dict.fromkeys(receivers))


# Policies


def policy_readers() -> str:
    """The policy files that processes besides the gatekeeper read."""
    rows = ((f"`{each.name}`", ", ".join(sorted(each.also_read_by))) for each in POLICY_FILES if each.also_read_by)
    return table(("file", "also read by"), rows)


# Conformance


#: How the tables write the two longest folders, as the page on the architecture does.
SHORT = {"services/gatekeeper/": "gk/", "shared/gatewright/": "gw/"}


def conformance() -> str:
    """Return the number of rules of each document, done and not done."""
    listed: dict[str, list[dict[str, Any]]] = yaml.safe_load(CONFORMANCE.read_text("utf-8"))
    left = {name: sum("not_done" in rule for rule in rules) for name, rules in listed.items()}
    rows = [(f"`{name}`", str(len(rules)), str(len(rules) - left[name]), str(left[name])) for name, rules in listed.items()]
    return table(("document", "rules", "done", "not done"), rows)


def rules_of(document: str) -> Callable[[], str]:
    """Return the provider for the rules of one document."""

    def rules() -> str:
        listed = yaml.safe_load(CONFORMANCE.read_text("utf-8"))[document]
        return table(("id", "rule", "code", "tests"), map(_rule, listed))

    return rules


def _rule(rule: dict[str, Any]) -> tuple[str, ...]:
    if "not_done" in rule:
        return f"`{rule['id']}`", rule["rule"], "*not done*", rule["not_done"]
    return f"`{rule['id']}`", rule["rule"], code(map(_shorter, rule["code"])), code(rule["tests"])


def _shorter(path: str) -> str:
    return next((short + path.removeprefix(folder) for folder, short in SHORT.items() if path.startswith(folder)), path)


# Pages


#: The provider of each block: the name on the page, and a function that returns Markdown.
# The command line


def fields_of(schema: str, *path: str) -> Callable[[], str]:
    """Return the provider for the fields of a document's part: ``path`` leads to it by names, through arrays."""

    def fields() -> str:
        part: dict[str, Any] = json.loads((SCHEMAS / f"{schema}.json").read_text("utf-8"))
        for name in path:
            part = part["properties"][name]
            part = part.get("items", part)
        rows = ((f"`{name}`", each["description"], _default(each)) for name, each in part["properties"].items())
        return table(("field", "meaning", "default"), rows)

    return fields


def _default(field: dict[str, Any]) -> str:
    """The default of a field as JSON; empty if it is required, null, or an object, whose fields have their own."""
    value = field.get("default")
    return "" if value is None or isinstance(value, dict) else f"`{json.dumps(value)}`"


def commands() -> str:
    """Yield one row for each command, by panel; the commands of a group replace the group."""
    program: Any = get_command(app)
    rows: list[tuple[str, str]] = []
    for panel, names in ProgramHelp.panels.items():
        rows.append((f"**{panel}**", ""))
        rows += (row for name in names for row in _command_rows(program.commands[name], name))
    return table(("command", "purpose"), rows)


def _command_rows(command: Any, name: str) -> Iterator[tuple[str, str]]:
    if not isinstance(command, TyperGroup):
        yield f"`{name}`", summary_of(command)
        return
    for below, each in command.commands.items():
        if not each.hidden:
            yield from _command_rows(each, f"{name} {below}")


def options() -> str:
    """The options of `run`, by panel, with the field of the request that each one sets."""
    rows: list[tuple[str, ...]] = []
    for panel in Panel:
        rows.append((f"**{panel}**", "", "", ""))
        inside = (row for row in order_rows() if row.panel is panel)
        rows += map(_option, sorted(inside, key=lambda row: not row.first_screen))
    return table(("option", "meaning", "default", "field of the request"), rows)


def _option(row: Row) -> tuple[str, ...]:
    spelled = ", ".join(f"`{flag}{_metavar(row)}`" for flag in row.flags) or f"`{row.metavar}`"
    default = row.note or (f"`{row.default:g}`" if isinstance(row.default, float) else f"`{row.default}`")
    shown = "" if row.default in (None, (), False, "") and not row.note else default
    return spelled, _option_help(row), shown, f"`{row.pointer}`" if row.pointer else ""


def _option_help(row: Row) -> str:
    """The help with the choices of a list, and whether the option is repeatable."""
    listed = f": {', '.join(row.bounds.choices)}" if row.kind is Kind.CHOICES else ""
    return f"{row.help}{listed}" + (" (repeatable)" if row.kind.many else "")


def _metavar(row: Row) -> str:
    """Return the placeholder of the option's value."""
    if row.kind in {Kind.FLAG, Kind.SWITCH}:
        return ""
    return " " + ("|".join(row.bounds.choices) if row.kind is Kind.CHOICE else row.metavar or "N")


# Proofs


def proofs() -> str:
    """What each framework adds to the proofs that all of them have; frameworks with equal cells share a row."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    for each in DIRECT:
        unused = "file" if each.reports_files else "package" if each.package_files else "not measured"
        cells = (unused, "yes" if each.replays is not None else "no", code(sorted(each.languages)) or "all")
        rows.setdefault(cells, []).append(each.name)
    columns = ("framework", "changed source without a test: found by", "repeated calls", "languages of mutants")
    return table(columns, ((code(names), *cells) for cells, names in rows.items()))


PROVIDERS: dict[str, Callable[[], str]] = {
    "commands": commands,
    "options": options,
    "metrics": metrics,
    "expiry-metrics": expiry_metrics,
    "forge-metrics": forge_metrics,
    "metric-labels": metric_labels,
    "alerts": alerts,
    "bus-streams": bus_streams,
    "bus-subjects": bus_subjects,
    "bus-permissions": bus_permissions,
    "documents": documents,
    "proofs": proofs,
    "policy-readers": policy_readers,
    "forge-fields": fields_of("forges.v1", "forges"),
    "judge-fields": fields_of("forges.v1", "forges", "judge"),
    "queue-rule-fields": fields_of("queue_rules.v1", "queues"),
    "queue-policy-fields": fields_of("queue_rules.v1", "queues", "policy"),
    "conformance": conformance,
    **{f"conformance-{name}": rules_of(name) for name in ("core", "chorus", "prompts", "omega", "hood")},
}


def rewritten(page: Path) -> str:
    """The text of a page with current blocks. Raises ValueError for an unknown name, and for a block without an end."""
    text = page.read_text("utf-8")
    if text.count(OPENING) != len(BLOCK.findall(text)):
        raise ValueError(f"{page.name}: a generated block has no end: write `<!-- end generated -->` below it")

    def current(match: re.Match[str]) -> str:
        if match[2] not in PROVIDERS:
            raise ValueError(f"{page.name}: no provider renders {match[2]!r}: add it to PROVIDERS in .ci/reference.py")
        return f"{match[1]}\n{PROVIDERS[match[2]]()}\n{match[4]}"

    return BLOCK.sub(current, text)


def main() -> int:
    parser = argparse.ArgumentParser(description="Rewrite the generated blocks of the documentation.")
    parser.add_argument("--check", action="store_true", help="list stale pages and change nothing")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", metavar="FOLDER", help="folder of the pages")
    given = parser.parse_args()
    try:
        texts = {page: rewritten(page) for page in sorted(given.docs.glob("*.md"))}
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    stale = [page for page, text in texts.items() if text != page.read_text("utf-8")]
    if given.check:
        for page in stale:
            print(f"{page.name}: a generated block is stale: run `python .ci/reference.py`", file=sys.stderr)
        return 1 if stale else 0
    for page in stale:
        page.write_text(texts[page], "utf-8")
        print(f"rewrote {page.name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
