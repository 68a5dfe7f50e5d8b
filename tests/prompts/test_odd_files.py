"""A file of prompts of any shape is refused by its name: PyYAML raises five kinds of errors for odd values."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.prompts.library import PromptLibrary, PromptsError

ODD = (
    *(
        b"",
        b"\xff",
        b"\0",
        b"[",
        b"{",
        b"- a",
        b"a: b: c",
        b"? [a]\n: b",
        b"&a [*a]",
        b"*a",
        b"!!python/object:x {}",
        b"%YAML 9.9\n---\n",
    ),
    *(
        b"!!int ''",
        b"!!float x",
        b"!!bool x",
        b"!!timestamp x",
        b"!!binary x",
        b"!!set x",
        b"!!omap x",
        b"!!pairs [1]",
        b"!!null x",
    ),
    *(
        b"[" * 3_000,
        b"a: " * 2_000,
        b"1" * 5_000,
        b"0x" + b"f" * 5_000,
        b"2026-99-99",
        b"1:99:99999999999",
        b"<<: x",
        b"<<: [1]",
    ),
    b"a: &a [x, x]\n" + b"".join(b"b%d: &b%d [*a, *a, *a]\n" % (n, n) for n in range(20)),
)


@pytest.mark.parametrize("place", [b"%s", b"reviewer: %s\n", b"reviewer:\n  persona: %s\n"], ids=["file", "role", "persona"])
def test_yaml_of_any_shape_is_refused_by_its_file(place: bytes, tmp_path: Path) -> None:
    defects = []
    for odd in ODD:
        (tmp_path / "prompts.yaml").write_bytes(place % odd)
        try:
            PromptLibrary(tmp_path).compose("reviewer", "json")
        except PromptsError as error:
            assert "prompts.yaml" in error.message  # noqa: PT017 - both ends are right
        except Exception as error:  # noqa: BLE001 - each kind is a defect, and all are listed
            defects.append((odd[:40], repr(error)[:200]))
    assert defects == []
