"""Five changes for one branch through its merge queue: three land, one fails together with another, one conflicts.

Each passes its own tests on its own base. Two of them must not land after the first one.
"""

from __future__ import annotations

import asyncio
import difflib
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recording import make_project
from rich.console import Console
from rich.table import Table

from gatewright import Client
from gatewright.app.cli.session import attach_client
from gatewright.contracts.merge_queue import MergeQueueView

GATEWRIGHT = [sys.executable, "-m", "gatewright.app.cli.main"]
TESTS = "python -m unittest -q"
#: Seconds between two reads of the queue.
_LOOK = 0.05
#: The project, by file.
SHOP = {
    "prices.py": "def total(prices):\n    return sum(prices)\n",
    "stock.py": "def missing(wanted, stock):\n    return [each for each in wanted if each not in stock]\n",
    "labels.py": "def label(name):\n    return name.title()\n",
    "test_shop.py": """import unittest

import labels
import stock


class ShopTest(unittest.TestCase):
    def test_stock(self):
        self.assertEqual(stock.missing(["tea"], []), ["tea"])

    def test_labels(self):
        self.assertEqual(labels.label("tea"), "Tea")
""",
    "test_prices.py": """import unittest

import prices


class PricesTest(unittest.TestCase):
    def test_total(self):
        self.assertEqual(prices.total([1, 2]), 3)
""",
}
_INVOICE_TEST = """import unittest

import invoice


class InvoiceTest(unittest.TestCase):
    def test_lines(self):
        self.assertEqual(invoice.lines([1, 2]), ["1", "2", "total 3"])
"""


@dataclass(frozen=True)
class Order:
    """A change with its new files. ``code`` and ``why`` state why it must leave the queue; empty if it must land."""

    title: str
    files: Mapping[str, str]
    code: str = ""
    why: str = ""


#: The first one lands first. The last two apply to the base and are incompatible with the first one.
ORDERS = (
    Order(
        "rename total() to sum_of()",
        {
            "prices.py": SHOP["prices.py"].replace("total(", "sum_of("),
            "test_prices.py": SHOP["test_prices.py"].replace("prices.total(", "prices.sum_of("),
        },
    ),
    Order("sort what is missing", {"stock.py": SHOP["stock.py"].replace("[each", "sorted([each").replace("stock]", "stock])")}),
    Order("strip labels", {"labels.py": SHOP["labels.py"].replace("name.title()", "name.strip().title()")}),
    Order(
        "add invoices that call total()",
        {
            "invoice.py": 'import prices\n\n\ndef lines(paid):\n    return [*map(str, paid), f"total {prices.total(paid)}"]\n',
            "test_invoice.py": _INVOICE_TEST,
        },
        "merge_tests_failed",
        "it calls total(), which the first change renamed",
    ),
    Order(
        "round total()",
        {"prices.py": SHOP["prices.py"].replace("sum(prices)", "round(sum(prices))")},
        "merge_conflict",
        "the first change edits the same file",
    ),
)


@dataclass(frozen=True)
class Queueing:
    """The runs of the merge queue. It owns ``folder``; ``prefix`` is the environment of its tests."""

    folder: Path
    prefix: Path
    console: Console

    @property
    def _project(self) -> Path:
        return self.folder / "shop"

    @property
    def _environment(self) -> Mapping[str, str]:
        return {**os.environ, "GATEWRIGHT_HOME": str(self.folder / "home")}

    def play(self) -> str:
        """Submit all five changes, follow the queue until it is empty, and verify the evidence.

        Returns:
            One sentence on what landed, and what left and why.

        Raises:
            SystemExit: a run has an unexpected outcome.
        """
        self._prepare()
        with self._stack():
            results = asyncio.run(self._order())
            self.console.rule("what the queue did")
            self._report(results)
            self.console.rule("the evidence of the first change, verified offline and against the branch")
            self._show("verify", str(results[0]["run_id"]), "--repo", str(self._project))
        landed = [order.title for order in ORDERS if not order.code]
        left = [f"{order.title}, because {order.why} [{order.code}]" for order in ORDERS if order.code]
        return f"{len(landed)} of {len(ORDERS)} queued changes landed on main: {'; '.join(landed)}.\nLeft: {'; '.join(left)}."

    def _prepare(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        make_project(self._project, SHOP, message="Import the shop")
        # A branch that is checked out cannot move.
        subprocess.run(["git", "-C", str(self._project), "switch", "--quiet", "--create", "work"], check=True)
        for number, order in enumerate(ORDERS):
            self._patch(number).write_text("".join(_patch_of(order)))

    def _patch(self, number: int) -> Path:
        return self.folder / f"change-{number + 1}.patch"

    def _output(self, order: Order) -> Path:
        return self.folder / f"output-{ORDERS.index(order) + 1}.jsonl"

    @contextmanager
    def _stack(self) -> Iterator[None]:
        """One stack for all runs, so that they meet in one queue."""
        self._show("up", "--detach", "--env", str(self.prefix))
        try:
            yield
        finally:
            self._show("down")

    def _start(self, order: Order) -> subprocess.Popen[bytes]:
        tests = tuple(name for name in order.files if name.startswith("test_"))
        allowed = [word for name in order.files for word in ("--allow-tests" if name in tests else "--allow", name)]
        patch = self._patch(ORDERS.index(order)).relative_to(self.folder)
        words = ["run", order.title, *allowed, "--patch", f"../{patch}", "--test", TESTS]
        words += ["--land", "queue", "--target-ref", "main", "--env", str(self.prefix)]
        self._print_command(words)
        # In a file: a pipe that nothing reads before the end would stop the run once it is full.
        with self._output(order).open("wb") as output:
            return subprocess.Popen([*GATEWRIGHT, *words, "--json"], cwd=self._project, env=self._environment, stdout=output)

    async def _order(self) -> list[dict[str, Any]]:
        """Return the results of the runs, in order.

        The queue is held until all changes are in it. The first one may land before.
        """
        processes = [self._start(ORDERS[0])]
        try:
            async with attach_client(None, self.folder / "home") as client:
                while processes[0].poll() is None:
                    if await client.merge_queues():
                        break
                    await asyncio.sleep(_LOOK)
                # In a thread, because the server closes a connection that blocks for seconds.
                await asyncio.to_thread(self._show, "merge", "hold", "main", "--reason", "collect the other changes")
                processes += map(self._start, ORDERS[1:])
                await self._follow(client, processes)
        except BaseException:
            for process in processes:
                process.terminate()
            raise
        return [self._result(order) for order in ORDERS]

    async def _follow(self, client: Client, processes: list[subprocess.Popen[bytes]]) -> None:
        """Print each new state of the queue until all runs have ended. Resume it when all changes are in it."""
        resumed, last = False, ""
        while any(process.poll() is None for process in processes):
            (queue,) = await client.merge_queues()
            words = _state_words(queue)
            if words != last:
                self.console.print(f"  {words}", markup=False, soft_wrap=True)
                last = words
            if not resumed and len(queue.entries) + len(queue.endings) == len(processes):
                await asyncio.to_thread(self._show, "merge", "show", "main")
                await asyncio.to_thread(self._show, "merge", "resume", "main")
                resumed = True
            await asyncio.sleep(_LOOK)

    def _result(self, order: Order) -> dict[str, Any]:
        result: dict[str, Any] = json.loads(self._output(order).read_bytes().splitlines()[-1])
        code = result["failure"]["code"] if result.get("failure") else ""
        if code != order.code:
            raise SystemExit(f"{order.title}: unexpected outcome {code or 'landed'}: {result}")
        return result

    def _report(self, results: list[dict[str, Any]]) -> None:
        table = Table(box=None, pad_edge=False, show_header=False)
        for order, result in zip(ORDERS, results, strict=True):
            why = f"{order.code}: {result['failure']['message']}" if order.code else str(result["commit"])[:12]
            table.add_row("[red]left[/]" if order.code else "[green]landed[/]", order.title, why)
        self.console.print(table)

    def _show(self, *words: str) -> None:
        """Run a command with its output on the terminal. Raises SystemExit if it fails."""
        self._print_command(list(words))
        if subprocess.run([*GATEWRIGHT, *words], cwd=self._project, env=self._environment, check=False).returncode != 0:
            raise SystemExit(f"gatewright {words[0]} failed")

    def _print_command(self, words: list[str]) -> None:
        self.console.print("$ gatewright " + shlex.join(words), style="bold", markup=False, soft_wrap=True)


def _patch_of(order: Order) -> Iterator[str]:
    for name, new in order.files.items():
        old = SHOP.get(name, "")
        before = f"a/{name}" if old else "/dev/null"
        yield from difflib.unified_diff(old.splitlines(keepends=True), new.splitlines(keepends=True), before, f"b/{name}")


def _state_words(queue: MergeQueueView) -> str:
    """Format the state of a queue: ``3 queued; position 1 of 2 runs: testing; 1 landed, 1 left``."""
    positions = (f"position {each.number}, {_runs(len(each.runs))}: {each.state}" for each in queue.positions)
    outcomes = [each.outcome == "landed" for each in queue.endings]
    return "; ".join((f"{queue.length} queued", *positions, f"{sum(outcomes)} landed, {outcomes.count(False)} left"))


def _runs(number: int) -> str:
    return f"{number} run{'' if number == 1 else 's'}"
