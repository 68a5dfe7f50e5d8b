"""What calls no model loads nothing of what calls them: it would cost every process its start-up time."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "module", ["gatewright.services.gatekeeper.service", "gatewright.models.policy", "gatewright.bus.jetstream.bus"]
)
@pytest.mark.long
def test_no_http_client_is_loaded_where_no_model_is_called(module: str) -> None:
    heavy = "sorted(name for name in sys.modules if name.startswith(('aiohttp', 'gatewright.models.gateway')))"
    command = [sys.executable, "-c", f"import {module}, sys; print({heavy})"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_it_can_be_loaded_beside_the_bus_all_the_same() -> None:
    code = "import gatewright.bus.jetstream.bus, gatewright.models.gateway, aiohttp; print(aiohttp.ClientSession.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "ClientSession"


@pytest.mark.long
def test_a_role_loads_only_the_client_of_its_api() -> None:
    code = (
        "import sys, httpx2\n"
        "from gatewright.structured import layer\n"
        "clients = lambda: [name for name in ('anthropic', 'openai') if name in sys.modules]\n"
        "before = clients()\n"
        "layer._model(httpx2.AsyncClient(), 'chat_completions', 'm')\n"
        "print(before, clients())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] ['openai']"
