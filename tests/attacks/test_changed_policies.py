"""Policies that were changed while a run went on: every gate that judges by others than it was accepted under says so."""

from __future__ import annotations

from pathlib import Path

from msgspec import structs

from tests.attacks.real_gate import evidence, open_gate
from tests.git.repositories import MakeRepository

FILES = {"src/a.py": b"A = 1\n"}


async def test_a_gate_names_its_policies_when_they_have_changed(make_repository: MakeRepository, tmp_path: Path) -> None:
    async with open_gate(make_repository(files=FILES), tmp_path) as gate:
        policies = gate.gates.policies
        before = {**policies.digests, "roles.json": "1" * 64, "gone.json": "2" * 64}
        gate.run = structs.replace(
            gate.run, accepted=structs.replace(gate.run.accepted, policy_sha256="3" * 64, policies=before)
        )
        seen = evidence(await gate.diff(await gate.worked(gate.patch({"src/a.py": b"A = 2\n"}))))
    named = {name: digest for name, digest in seen.items() if name.startswith("policies")}
    assert named == {"policies": policies.sha256, "policies/roles.json": policies.digests["roles.json"]}


async def test_a_gate_names_no_policies_where_they_are_those_of_the_start(
    make_repository: MakeRepository, tmp_path: Path
) -> None:
    async with open_gate(make_repository(files=FILES), tmp_path) as gate:
        policies = gate.gates.policies
        same = structs.replace(gate.run.accepted, policy_sha256=policies.sha256, policies=policies.digests)
        gate.run = structs.replace(gate.run, accepted=same)
        seen = evidence(await gate.diff(await gate.worked(gate.patch({"src/a.py": b"A = 2\n"}))))
    assert "candidate_tree" in seen
    assert not [name for name in seen if name.startswith("policies")]
