"""A ``GATEWRIGHT_`` variable of any text is read, or refused by a ConfigurationError."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gatewright.app.cli import settings as cli_settings
from gatewright.errors import ConfigurationError
from gatewright.service.settings import ServiceSettings
from gatewright.services.gatekeeper.settings import Settings as GatekeeperSettings
from gatewright.services.testrunner import settings as testrunner_settings
from gatewright.services.worker.settings import Settings as WorkerSettings

TEXTS = (
    *(
        "x",
        " ",
        "0",
        "-1",
        "1e999",
        "nan",
        "9" * 5_000,
        "[",
        "[]",
        "{}",
        "null",
        "[" * 3_000,
        '{"a": 1}',
        "\n",
        "a,b",
        ",",
        ":",
    ),
    *(
        "\ud800",
        "\u202e",
        "/" * 5_000,
        "~/x",
        "true",
        "x\x01",
        "1GiB",
        "LEDGER=1GiB",
        "LEDGER=" + "9" * 5_000,
        "=",
        "a=b=c",
    ),
)
LOADERS: dict[str, tuple[Callable[[], object], list[str]]] = {
    **{
        kind.__module__: (kind.load, list(kind.model_fields))
        for kind in (ServiceSettings, GatekeeperSettings, testrunner_settings.Settings, WorkerSettings)
    },
    **{
        kind.__name__: (kind.load, list(kind.__struct_fields__))
        for kind in (cli_settings.CliSettings, cli_settings.DoctorSettings, cli_settings.AgentSettings)
    },
}


@pytest.mark.parametrize("name", LOADERS)
def test_a_variable_of_any_text_is_read_or_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    load, fields = LOADERS[name]
    defects = []
    for field in fields:
        variable = f"GATEWRIGHT_{field.upper()}"
        for text in TEXTS:
            with monkeypatch.context() as changed:
                try:
                    changed.setenv(variable, text)
                except UnicodeEncodeError:
                    continue
                try:
                    settings = load()
                    for derived in ("bus_address", "stream_settings", "installations"):
                        getattr(settings, derived, None)
                except ConfigurationError:
                    continue
                except Exception as error:  # noqa: BLE001 - each kind is a defect, and all are listed
                    defects.append((variable, text[:60], repr(error)[:200]))
    assert defects == []
