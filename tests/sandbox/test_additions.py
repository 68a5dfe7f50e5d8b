"""What a command is given beyond its environment: a folder that it can read, a pipe in it that it can write to, variables."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.ecosystems.pipe import PIPE, report_pipe
from gatewright.sandbox import Additions, Sandbox, SandboxLimits
from gatewright.sandbox.bubblewrap import BubblewrapSandbox
from gatewright.sandbox.port import ADDITIONS_INSIDE
from gatewright.sandbox.unconfined import Unconfined
from tests.sandbox.places import Folder

LIMITS = SandboxLimits(wall_seconds=20)


@pytest.fixture
def additions(tmp_path: Path) -> Additions:
    folder = tmp_path / "additions"
    folder.mkdir()
    folder.chmod(0o755)
    (folder / "note").write_text("ours")
    return Additions(folder, {"REPORT": f"@FOLDER@/{PIPE}", "FOLDER": "@FOLDER@"})


@pytest.mark.parametrize("sandbox", [BubblewrapSandbox(), Unconfined()], ids=["bubblewrap", "none"])
async def test_reports_of_a_command_arrive_complete_and_in_order(sandbox: Sandbox, place: Folder, additions: Additions) -> None:
    program = "import os; f = os.open(os.environ['REPORT'], os.O_WRONLY)\nfor n in range(20000): os.write(f, b'line %d\\n' % n)"
    with report_pipe(additions.folder) as pipe:
        completed = await sandbox.run(
            ("python3", "-c", program), workspace=place, prefix=None, limits=LIMITS, additions=additions
        )
        assert completed.exit_code == 0, completed.stderr
        assert pipe.lines() == [b"line %d" % number for number in range(20_000)]


async def test_a_command_reads_its_additions_and_changes_nothing_in_them(place: Folder, additions: Additions) -> None:
    program = (
        f"cat {ADDITIONS_INSIDE}/note && ! touch {ADDITIONS_INSIDE}/more && ! rm {ADDITIONS_INSIDE}/note "
        f"&& ! mv {ADDITIONS_INSIDE}/note {ADDITIONS_INSIDE}/other && ! sh -c 'echo theirs >{ADDITIONS_INSIDE}/note'"
    )
    sandbox = BubblewrapSandbox()
    completed = await sandbox.run(("sh", "-c", program), workspace=place, prefix=None, limits=LIMITS, additions=additions)
    assert (completed.exit_code, completed.stdout) == (0, b"ours"), completed.stderr
    assert [place.name for place in additions.folder.iterdir()] == ["note"]


async def test_a_command_cannot_read_reports_back_from_the_pipe(place: Folder, additions: Additions) -> None:
    program = (
        "import os\nf = os.open(os.environ['REPORT'], os.O_WRONLY); os.write(f, b'told\\n')\n"
        "try: print(os.read(os.open(os.environ['REPORT'], os.O_RDONLY | os.O_NONBLOCK), 100))\n"
        "except OSError as error: print(error.errno)"
    )
    with report_pipe(additions.folder) as pipe:
        await BubblewrapSandbox().run(
            ("python3", "-c", program), workspace=place, prefix=None, limits=LIMITS, additions=additions
        )
        assert pipe.lines() == [b"told"]
