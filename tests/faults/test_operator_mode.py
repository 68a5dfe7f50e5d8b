"""A server in operator mode whose accounts change while it runs: what is revoked is refused at once, what is added accepted."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gatewright.app.stack.nats_server import NatsServer
from gatewright.bus import identities, identity_changes
from gatewright.bus.identities import PROVISIONER, BusAddress, Credential, credentials_text
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.connection import Connection
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.operator_mode.claims import scope_claims, system_claims
from gatewright.bus.operator_mode.files import OPERATOR_KEY, make_jwt, system_credential, trust_lines
from gatewright.bus.operator_mode.resolver import give_accounts
from gatewright.bus.operator_mode.tokens import SigningNkey, new_seed_of, sign_token
from gatewright.bus.topology import intake_consumer
from gatewright.errors import BusError, ConfigurationError
from tests.command_line import invoke_in
from tests.faults.bus_parties import SIBLING, launch
from tests.waiting import PATIENCE


async def given(folder: Path, server: NatsServer, *more: str) -> Any:
    """What the command says that gives the servers their accounts."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "GATEWRIGHT_HOME": str(folder / "home")}
    line = ("identities", "jwt", "--keys", str(folder / "bus"), "--into", str(folder / "jwt"), *more, "--json")
    done = await asyncio.to_thread(invoke_in, folder, {**environment, "GATEWRIGHT_NATS_URL": server.url}, line)
    assert done.returncode == 0, (done.stdout, done.stderr)
    return json.loads(done.stdout)


async def is_refused(server: NatsServer, credentials: Path) -> bool:
    try:
        bus = await JetStreamBus.connect(BusAddress(server.url, credentials), name="tried", patience=5)
    except BusError as error:
        return error.reason == "credential_refused"
    await bus.close()
    return False


async def test_revocations_and_additions_take_effect_without_a_restart(tmp_path: Path) -> None:
    lost: dict[str, BusError] = {}
    keys, creds = tmp_path / "bus", tmp_path / "jwt" / "creds"

    async def connect(identity: str) -> JetStreamBus:
        def gone(error: BusError) -> None:
            lost[identity] = error

        return await JetStreamBus.connect(server.address(identity), name="bus", on_lost=gone, patience=5)

    async with await launch(tmp_path, "operator") as server:
        await ensure_topology(server.address(PROVISIONER))
        buses = {identity: await connect(identity) for identity in ("gatekeeper", "worker", SIBLING, "pm")}
        old = {identity: tmp_path / f"{identity}.creds" for identity in (SIBLING, "pm")}
        for path in old.values():
            path.write_bytes((creds / path.name).read_bytes())
            path.chmod(0o600)
        identity_changes.revoke(keys, SIBLING)
        identity_changes.revoke(keys, "pm")
        identity_changes.add(keys, ["publisher-payments"])
        told = await given(tmp_path, server, "--push")
        assert told["confirmed"] is True
        assert told["closed"] == [SIBLING]
        assert sorted(lost) == ["pm", SIBLING]
        assert [await is_refused(server, path) for path in old.values()] == [True, True]
        await ensure_topology(server.address(PROVISIONER))
        payments = await connect("publisher-payments")
        uri = await payments.put_artifact(b"what it brings")
        # The gatekeeper's connection is the one from before: what it may do is in its account.
        assert await buses["gatekeeper"].get_upload(uri, "payments") == b"what it brings"
        await payments.publish("gw.intake.request.payments", b"left", schema="s", message_id="1")
        subscription = await buses["gatekeeper"].consume(intake_consumer("payments"))
        left = await subscription.next(10)
        assert left is not None
        assert left.message.data == b"left"
        await subscription.close()
        await buses["worker"].publish("gw.result.worker", b"{}", schema="s", message_id="1")
        assert buses["worker"].connection.client.stats["reconnects"] == 0
        for bus in (*buses.values(), payments, await connect("pm")):
            await bus.close()


@pytest.mark.parametrize("token", ["none", "of the worker's account", "its own"])
async def test_an_account_of_another_hand_under_the_same_operator_reaches_nothing(tmp_path: Path, token: str) -> None:
    """It imports what ours export, without a token for it or with one that is for another. With its own, it would."""
    async with await launch(tmp_path, "operator") as server:
        await ensure_topology(server.address(PROVISIONER))
        made = make_jwt(tmp_path / "bus", ("default",), 1)
        operator = SigningNkey.of((tmp_path / "bus" / "accounts" / f"{OPERATOR_KEY}.nk").read_text().strip())
        account, user = SigningNkey.of(new_seed_of("account")), SigningNkey.of(new_seed_of("user"))
        bus = made.keys["gatewright"]
        stolen = {"type": "activation", "subject": "gw.result.worker", "kind": "service"}
        wanted: dict[str, Any] = {"name": "x", "subject": "gw.result.worker", "account": bus.public, "type": "service"}
        if token != "none":
            whose = account if token == "its own" else made.keys["worker"]
            wanted["token"] = sign_token(bus, whose.public, "gw.result.worker", stolen, 1)
        claims = {**system_claims(), "imports": [wanted]}
        accounts = {"stranger": sign_token(operator, account.public, "stranger", claims, 1)}
        given = replace(made, accounts=accounts, closed=frozenset())
        with contextlib.suppress(BusError):  # the server may also refuse the account itself
            await give_accounts(BusAddress(server.url), system_credential(tmp_path / "bus", 1), given)
        unbound = {"type": "user", **dict.fromkeys(("subs", "data", "payload"), -1)}
        stranger = Credential("stranger", user.seed, token=sign_token(account, user.public, "stranger", unbound, 1))
        try:
            connection = await Connection.open(server.url, name="stranger", credential=stranger, patience=3)
        except BusError:
            assert token != "its own"
            return
        refused = pytest.raises(BusError, match="no process answers") if token != "its own" else contextlib.nullcontext()
        with refused:
            await connection.request("gw.result.worker", b"{}", timeout=PATIENCE)
        await connection.close()


async def test_self_signed_accounts_name_themselves_as_their_issuers(tmp_path: Path) -> None:
    identities.make(tmp_path)
    made = make_jwt(tmp_path, ("default",), 1, self_signed=True)
    own = make_jwt(tmp_path, ("default",), 1)
    assert made.keys == own.keys
    assert made.accounts.keys() == own.accounts.keys()
    assert all(made.accounts[name] != own.accounts[name] for name in made.accounts)
    assert "allow_delete: false" in "\n".join(trust_lines(made.trust, tmp_path))


def test_an_identity_without_a_subject_is_no_user_that_may_do_anything() -> None:
    nobody = {"permissions": {"publish": {"allow": []}, "subscribe": {"allow": ["x"]}}}
    with pytest.raises(ConfigurationError, match="cannot be held to anything"):
        scope_claims(SigningNkey.of(new_seed_of("account")), "worker", nobody)


def test_a_credentials_file_is_read_as_it_was_written_and_is_private(tmp_path: Path) -> None:
    identities.make(tmp_path)
    identity_changes.rotate(tmp_path, "gatekeeper")
    made = make_jwt(tmp_path, ("default",), 1)
    path = tmp_path / "gatekeeper.creds"
    identities.write_private(path, credentials_text(made.users["gatekeeper"]))
    assert identities.load(path) == made.users["gatekeeper"]
    assert identities.load(path).replacing
    path.chmod(0o644)
    with pytest.raises(ConfigurationError) as refused:
        identities.load(path)
    assert refused.value.reason == "key_permissions"
