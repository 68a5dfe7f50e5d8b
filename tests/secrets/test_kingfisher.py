"""The library: where its compiled catalogue lies, and what happens when it cannot be had."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import kingfisher_sdk
import pytest

from gatewright.errors import ConfigurationError, DeniedError
from gatewright.secrets import kingfisher
from gatewright.secrets.kingfisher import Kingfisher, cache_folder
from gatewright.secrets.selection import make_scanner

VERSION = kingfisher_sdk.__version__


def test_the_catalogue_lies_in_the_installation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    folder = cache_folder(tmp_path / "fallback")
    assert folder == tmp_path / "prefix/share/gatewright/secret-rules" / VERSION
    assert folder.stat().st_mode & 0o077 == 0


def test_where_the_installation_cannot_be_written_it_lies_in_the_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "prefix").write_text("not a folder")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    assert cache_folder(tmp_path / "fallback") == tmp_path / "fallback" / VERSION


def test_a_folder_that_holds_the_catalogue_need_not_be_writable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A container's image brings it, on a read-only file system."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    monkeypatch.setattr(os, "access", lambda *_: False)
    folder = tmp_path / "prefix/share/gatewright/secret-rules" / VERSION
    folder.mkdir(mode=0o700, parents=True)
    assert cache_folder(tmp_path / "fallback") is None
    (folder / "compiled.vscdb").touch()
    assert cache_folder(tmp_path / "fallback") == folder


def test_a_folder_that_others_can_write_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What lies there is loaded as native code: planted, it would be the planter's."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    for place in (tmp_path / "prefix/share/gatewright/secret-rules" / VERSION, tmp_path / "fallback" / VERSION):
        place.mkdir(parents=True)
        place.chmod(0o777)
    assert cache_folder(tmp_path / "fallback") is None


def test_a_link_in_the_place_of_the_folder_is_not_followed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "prefix").write_text("not a folder")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "fallback").mkdir()
    (tmp_path / "fallback" / VERSION).symlink_to(tmp_path / "elsewhere")
    assert cache_folder(tmp_path / "fallback") is None


def test_a_catalogue_that_cannot_be_loaded_is_a_matter_of_configuration(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fails(**_options: object) -> object:
        raise ValueError("no rules")

    monkeypatch.setattr(kingfisher, "_LOADED", [])
    monkeypatch.setattr(kingfisher_sdk, "Rules", fails)
    scanner = make_scanner("kingfisher", tmp_path)
    with pytest.raises(ConfigurationError, match="no rules"):
        scanner.prepare()
    with pytest.raises(ConfigurationError, match="no rules"):
        scanner.find(b"anything")


def test_what_the_library_cannot_search_is_refused_and_not_clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fails(_data: bytes) -> object:
        raise RuntimeError("interrupted")

    monkeypatch.setattr(kingfisher, "_LOADED", [SimpleNamespace(scan=fails)])
    with pytest.raises(DeniedError) as refused:
        list(Kingfisher(tmp_path).find(b"anything"))
    assert refused.value.reason == "secret_scan_failed"


def test_the_catalogue_can_be_compiled_ahead() -> None:
    finished = subprocess.run([sys.executable, "-m", "gatewright.secrets"], capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stdout) == (0, f"patterns+kingfisher {VERSION}\n")
