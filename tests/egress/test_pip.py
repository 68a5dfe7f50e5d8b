"""A real pip reads a small index of two packages through the gateway."""

from __future__ import annotations

import asyncio
import hashlib
import io
import sys
import zipfile
from pathlib import Path

import pytest

from gatewright.egress.allowed import IndexedAddresses
from tests.egress.registry import FILES, INDEX, Registry, served, standard, write_trust


def wheel(name: str, requires: str = "") -> bytes:
    """A wheel of one empty module."""
    data = io.BytesIO()
    files = {
        f"{name}.py": "",
        f"{name}-1.0.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{requires}",
        f"{name}-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(data, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
        record = "".join(f"{path},,\n" for path in [*files, f"{name}-1.0.dist-info/RECORD"])
        archive.writestr(f"{name}-1.0.dist-info/RECORD", record)
    return data.getvalue()


def publish(registry: Registry, name: str, content: bytes) -> None:
    file = f"{name}-1.0-py3-none-any.whl"
    link = f"https://{FILES}:{registry.port}/files/{file}#sha256={hashlib.sha256(content).hexdigest()}"
    page = f'<!DOCTYPE html><html><body><a href="{link}">{file}</a></body></html>'
    registry.pages[f"/simple/{name}/"] = {"body": page.encode(), "content_type": "text/html"}
    registry.pages[f"/files/{file}"] = content


@pytest.mark.parametrize("package", ["demo", "foreign"])
async def test_pip_installs_what_the_pull_names(registry: Registry, tmp_path: Path, package: str) -> None:
    publish(registry, "demo", wheel("demo", "Requires-Dist: helper\n"))
    helper = wheel("helper")
    publish(registry, "helper", helper)
    publish(registry, "foreign", wheel("foreign"))
    allowed = IndexedAddresses(standard(registry), {"demo", "helper"})
    async with served(registry, allowed=allowed) as door:
        pip = ["-m", "pip", "download", "--isolated", "--disable-pip-version-check", "--no-cache-dir", "--retries", "0"]
        place = ["--index-url", f"https://{INDEX}:{registry.port}/simple", "--proxy", f"http://127.0.0.1:{door.port}"]
        trust = ["--cert", str(write_trust(tmp_path, door.trust)), "-d", str(tmp_path / "files"), package]
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, *pip, *place, *trust),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={"PIP_CONFIG_FILE": "/dev/null", "PATH": ""},
        )
        output, _ = await program.communicate()
    got = sorted(each.name for each in (tmp_path / "files").glob("*"))
    if package == "foreign":
        assert (program.returncode, got) == (1, [])
        assert [each.reason for each in door.log] == ["egress_address_refused"]
        assert registry.seen == []
        return
    assert program.returncode == 0, output.decode()
    assert got == ["demo-1.0-py3-none-any.whl", "helper-1.0-py3-none-any.whl"]
    digests = {each.path: each.sha256 for each in door.log}
    assert digests["/files/helper-1.0-py3-none-any.whl"] == hashlib.sha256(helper).hexdigest()
