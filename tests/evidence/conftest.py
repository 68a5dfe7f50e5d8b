"""Sealed bundles of hand-written runs, made once per session and copied for every test that changes one."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gatewright.evidence.signing import keys
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.writer import BundleWriter
from tests.evidence.recorded_runs import MAKERS, RecordedRun

MakeBundle = Callable[[str], Path]


@pytest.fixture(scope="session")
def private_key(tmp_path_factory: pytest.TempPathFactory) -> keys.PrivateKey:
    return keys.create(tmp_path_factory.mktemp("keys") / "gatekeeper.pem")


@pytest.fixture(scope="session")
def signer(private_key: keys.PrivateKey) -> Signer:
    return Signer(private_key)


@pytest.fixture(scope="session")
def recorded_runs() -> dict[str, RecordedRun]:
    return {name: make() for name, make in MAKERS.items()}


@pytest.fixture(scope="session")
def sealed_bundles(
    tmp_path_factory: pytest.TempPathFactory, recorded_runs: dict[str, RecordedRun], signer: Signer
) -> dict[str, Path]:
    async def seal(name: str, recorded: RecordedRun) -> Path:
        writer = BundleWriter(tmp_path_factory.mktemp(name))
        return Path(
            (await writer.seal(recorded.run, recorded.transitions, recorded.store, signer, recorded.sequences)).location
        )

    return {name: asyncio.run(seal(name, recorded)) for name, recorded in recorded_runs.items()}


@pytest.fixture
def make_bundle(sealed_bundles: dict[str, Path], tmp_path: Path) -> MakeBundle:
    """A private copy of the sealed bundle of a run: ``success``, ``fixed``, ``failed``, ``unplanned``, ``aborted``."""

    def make(name: str) -> Path:
        bundle = tmp_path / name
        shutil.copytree(sealed_bundles[name], bundle)
        return bundle

    return make
