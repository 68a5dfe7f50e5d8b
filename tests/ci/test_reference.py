"""Generated blocks of the documentation: a stale one is refused, and rewriting it repairs the page."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

REFERENCE = Path(__file__).resolve().parents[2] / ".ci" / "reference.py"
STALE = "# Metrics\n\n<!-- generated: metrics -->\n\n| old |\n\n<!-- end generated -->\n\nThe end.\n"


def run(docs: Path, *options: str) -> tuple[int, str]:
    argv = (sys.executable, str(REFERENCE), "--docs", str(docs), *options)
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_a_stale_block_is_refused_and_the_command_repairs_it(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(STALE)
    code, output = run(tmp_path, "--check")
    assert code == 1
    assert output == "page.md: a generated block is stale: run `python .ci/reference.py`\n"
    assert page.read_text() == STALE
    assert run(tmp_path) == (0, "rewrote page.md\n")
    assert "| `gatewright_runs_total` | counter |" in page.read_text()
    assert page.read_text().endswith("<!-- end generated -->\n\nThe end.\n")
    assert run(tmp_path, "--check") == (0, "")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (STALE.replace("metrics -->", "nothing -->"), "no provider renders 'nothing'"),
        (STALE.replace("<!-- end generated -->", ""), "a generated block has no end"),
    ],
)
def test_a_block_that_cannot_be_rendered_is_named(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "page.md").write_text(text)
    code, output = run(tmp_path, "--check")
    assert code == 1
    assert output.startswith(f"page.md: {reason}")
