"""Deploys the commit that a run landed: READY, ERROR or TIMEOUT, in a signed record of the home folder.

The record exists before the command starts, as RUNNING. It is replaced when the command has ended, so that a deployment that
was killed is visible.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from gatewright.app.deployment.policy import DeploymentEntry
from gatewright.app.gateway_clients import client_files, client_variables, read_output, while_served
from gatewright.app.publication.artifacts import SealedRun
from gatewright.app.signed_records import DEPLOYMENTS, Record, read_records, record_file
from gatewright.clock import Clock, timestamp
from gatewright.contracts import Deployment
from gatewright.contracts.deployment import DeploymentState
from gatewright.contracts.records import FileRecord
from gatewright.egress.allowed import AnyAddress
from gatewright.egress.gateway import EgressGateway, Sending
from gatewright.egress.record import EgressLog
from gatewright.errors import DeniedError, GatewrightError, UnavailableError
from gatewright.evidence.signed_documents import SignedKind
from gatewright.evidence.signing.durable_files import put_file
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.signing.keys import PrivateKey
from gatewright.file_locks import lock_file
from gatewright.git.access.credentials import RepositoryAccess
from gatewright.git.mirror import Mirror, Mirrors
from gatewright.patterns import BytesPattern
from gatewright.sandbox import DOOR_PORT, HOME_INSIDE, Furnishing, SandboxLimits
from gatewright.sandbox.bubblewrap import BubblewrapSandbox
from gatewright.sandbox.port import Stopped
from gatewright.secrets.redaction import redact_output
from gatewright.secrets.scanner import SecretScanner
from gatewright.workspace import Workspaces

DEPLOYMENT: Final = SignedKind(
    Deployment, "urn:gatewright:deployment:v1", "bad_deployment", lambda it: {f"git:{it.commit}": it.manifest_sha256}
)
_ADDRESS: Final = BytesPattern(rb"(?m)^address: (https?://[!-~]{1,1000})\r?$")
_STOPPED: Final = {
    "time": "it took longer than its time limit",
    "memory": "it used more memory than it may",
    "processes": "it started more processes than it may",
    "disk": "the disk is nearly full",
    "output": "it wrote more output than it may",
}


@dataclass(frozen=True, slots=True)
class Deployer:
    """Deploys by one entry of the policy, whose file has the digest ``policy_sha256``. ``note`` receives lines of progress."""

    entry: DeploymentEntry
    policy_sha256: str
    key: PrivateKey
    home: Path
    access: RepositoryAccess
    scanner: SecretScanner
    clock: Clock
    note: Callable[[str], None]

    async def deploy(self, sealed: SealedRun) -> Record[Deployment]:
        """Deploy the commit of a run.

        1. The run landed on a ref of the entry, and the ref has the commit still.
        2. No other deployment by this entry runs on this host.
        3. The record is written before the command starts, and again with its end. Cancelling ends the command: an ERROR.

        Raises GatewrightError if nothing was started; OSError if the home folder cannot be written.
        """
        begun, secrets = self._begun(sealed), self.entry.secrets()  # 1
        with self._alone(), tempfile.TemporaryDirectory(prefix="gatewright-deployment-") as folder:  # 2
            mirror = await Mirrors(Path(folder), access=self.access).open(begun.repository)
            await _check_on_ref(mirror, begun)
            name = f"{self.entry.name}-{''.join(each for each in begun.started_at if each.isalnum())}"
            file = record_file(self.home, DEPLOYMENTS, begun.run_id, name)
            self._write_deployment(file, begun)  # 3
            log = EgressLog(file.with_name(f"{name}.egress.jsonl"))
            self.note(f"deploying {begun.commit[:12]} to {self.entry.name}, for at most {self.entry.timeout_sec} s")
            try:
                ended = await self._run_deployment(mirror, begun, secrets, log)
            except asyncio.CancelledError:
                ended = Ended(None, "", b"", "it was interrupted")
            record = await asyncio.to_thread(self._finished, begun, ended, file, log)
            self._write_deployment(file, record)
        return Record(str(file), record)

    def _begun(self, sealed: SealedRun) -> Deployment:
        run, name = sealed.history.run, self.entry.name
        landed = run.landed
        url = run.contract.repository.url if run.contract is not None and run.contract.repository is not None else ""
        if landed is None or not landed.ref or not landed.commit:
            raise DeniedError(f"{run.run_id} landed no commit: there is nothing to deploy", code="deployment_not_landed")
        if not self.entry.covers(url, landed.ref):
            words = f"{name} does not deploy {landed.ref} of {url}: add both to deployments.json if that is meant"
            raise DeniedError(words, code="deployment_not_allowed")
        return Deployment(
            run_id=run.run_id,
            manifest_sha256=sealed.verification.manifest_sha256,
            target=name,
            policy_sha256=self.policy_sha256,
            repository=url,
            ref=landed.ref,
            commit=landed.commit,
            command=self.entry.command,
            state="RUNNING",
            started_at=timestamp(self.clock.now()),
            key_id=self.key.public.key_id,
        )

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the lock of the entry. Raises UnavailableError (``deployment_running``)."""
        folder = self.home / DEPLOYMENTS
        folder.mkdir(parents=True, exist_ok=True)
        try:
            held = lock_file(folder / f".{self.entry.name}.lock")
        except BlockingIOError as error:
            words = f"another deployment to {self.entry.name} runs on this host: wait for its end"
            raise UnavailableError(words, code="deployment_running") from error
        try:
            yield
        finally:
            os.close(held)

    async def _run_deployment(self, mirror: Mirror, begun: Deployment, secrets: Mapping[str, str], log: EgressLog) -> Ended:
        variables = {
            "GATEWRIGHT_RUN": begun.run_id,
            "GATEWRIGHT_COMMIT": begun.commit,
            "GATEWRIGHT_REF": begun.ref,
            "GATEWRIGHT_DEPLOYMENT": begun.target,
        }
        sending = Sending({each.name: each.methods for each in self.entry.apis}, self.entry.body_bytes)
        try:
            gateway = None  # without an API there is nothing to connect to
            if self.entry.apis:
                gateway = EgressGateway(
                    self.entry.egress(), AnyAddress(), log.append, clock=self.clock, secrets=secrets, sending=sending
                )
            return await run_boxed(self.entry, mirror, begun.commit, variables, gateway)
        except GatewrightError as error:
            return Ended(None, "", b"", f"{error.reason}: {error.message}")

    def _finished(self, begun: Deployment, ended: Ended, file: Path, log: EgressLog) -> Deployment:
        """Return the record with its end, and write the output beside it."""
        output = redact_output("output", ended.output, self.scanner).data
        addresses = list(_ADDRESS.groups(output))
        place = file.with_name(f"{file.name.partition('.')[0]}.output")
        put_file(place, output, mode=0o600)
        files = {place: output, **({log.path: log.path.read_bytes()} if log.path.exists() else {})}
        return msgspec.structs.replace(
            begun,
            state=_state_of(ended),
            finished_at=timestamp(self.clock.now()),
            exit_code=ended.exit_code,
            reason=ended.failure or (_STOPPED[ended.stopped] if ended.stopped else ""),
            address=addresses[-1].decode() if addresses else "",
            files=tuple(_file_record(file.name, data) for file, data in files.items()),
        )

    def _write_deployment(self, file: Path, record: Deployment) -> None:
        put_file(file, DEPLOYMENT.sign(record, Signer(self.key)), mode=0o644)


def _state_of(ended: Ended) -> DeploymentState:
    if ended.stopped == "time":
        return "TIMEOUT"
    return "READY" if ended.exit_code == 0 and not ended.stopped else "ERROR"


def _file_record(name: str, data: bytes) -> FileRecord:
    return FileRecord(path=name, sha256=hashlib.sha256(data).hexdigest(), size=len(data))


async def _check_on_ref(mirror: Mirror, begun: Deployment) -> None:
    """Raises DeniedError (``deployment_not_on_ref``) if the ref does not have the commit any more."""
    tip = await mirror.current(begun.ref)
    if tip is not None:
        await mirror.ensure(tip)
        await mirror.ensure(begun.commit)
    if tip is None or not await mirror.descends(tip, begun.commit):
        words = f"{begun.ref} does not have {begun.commit} any more: deploy a run whose commit it has"
        raise DeniedError(words, code="deployment_not_on_ref")


def deployment_records(home: Path, run_id: str = "*") -> list[Record[Deployment]]:
    """Return the records of a run, or of all runs, each verified with its files."""
    return [_with_files(each) for each in read_records(home, DEPLOYMENTS, DEPLOYMENT, run_id)]


def _with_files(found: Record[Deployment]) -> Record[Deployment]:
    for each in found.record.files if found.record is not None else ():
        place = Path(found.file).with_name(Path(each.path).name)
        if not place.is_file() or _file_record(each.path, place.read_bytes()) != each:
            return replace(found, code="deployment_file_altered")
    return found


# The box of a deployment: the files of one commit, one command, and the egress gateway as its only connection.
_LIMITS: Final = SandboxLimits(memory_bytes=8 << 30, processes=2048, file_bytes=8 << 30, tmp_bytes=4 << 30)
#: Standard error belongs into the output where it was written.
_TOGETHER: Final = ("/bin/sh", "-c", 'exec "$@" 2>&1', "deployment")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended, and the first 8 MiB of its output. ``failure``: why it did not run to an end."""

    exit_code: int | None
    stopped: Stopped
    output: bytes
    failure: str = ""


async def run_boxed(
    entry: DeploymentEntry,
    mirror: Mirror,
    commit: str,
    variables: Mapping[str, str],
    gateway: EgressGateway | None,
) -> Ended:
    """Run the command of ``entry`` in the files of ``commit``. It reaches only ``gateway``. Nothing of it runs on afterwards.

    Raises:
        ConfigurationError: the environment must not be shown.
        SandboxError, UnavailableError: no box or no workspace can be made, or the gateway ended.
        GitError: the commit is missing.
    """
    furnishing = Furnishing(
        variables={**variables, **client_variables(HOME_INSIDE, DOOR_PORT)},
        files=client_files(gateway),
    )
    sandbox = BubblewrapSandbox()
    limits = replace(_LIMITS, wall_seconds=float(entry.timeout_sec))
    with tempfile.TemporaryDirectory(prefix="gatewright-deployment-") as folder:
        workspaces = Workspaces.for_sandbox(Path(folder), sandbox)
        async with workspaces.open(mirror, commit) as workspace:
            argv = (*_TOGETHER, *entry.command)
            opened = sandbox.session(argv, workspace=workspace, prefix=entry.environment, limits=limits, furnishing=furnishing)
            async with opened as session:
                session.finish()
                output = await while_served(gateway, session.door, read_output(session))
    return Ended(None if session.stopped else session.exit_code, session.stopped, output)
