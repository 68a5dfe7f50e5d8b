"""What hostile commands try, and where each attempt ends. Every test runs a real command in a real bubblewrap."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path

import pytest

from gatewright.canary import CANARY_FILE, canary_spans
from gatewright.sandbox import sandbox_account
from gatewright.sandbox.bubblewrap import _HOME, BubblewrapSandbox
from gatewright.sandbox.environments import Environments
from gatewright.sandbox.syscalls import seccomp_filter
from gatewright.sandbox.system import environment
from tests.sandbox.conftest import LIMITS
from tests.sandbox.places import Folder, Run

needs_filter = pytest.mark.skipif(seccomp_filter() is None, reason="no filter for this processor")


async def test_network_is_unreachable(run: Run, python: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)"
        completed = await run("python", "-c", code, prefix=python)
    assert completed.exit_code == 1
    assert b"ConnectionRefusedError" in completed.stderr


async def test_only_loopback_is_there(run: Run) -> None:
    completed = await run("sh", "-c", "tail -n +3 /proc/net/dev | cut -d: -f1; cat /proc/net/route | wc -l")
    assert completed.stdout.split() == [b"lo", b"1"]


async def test_abstract_sockets_of_the_host_are_unreachable(run: Run, python: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("")  # the kernel chooses an abstract name
        server.listen()
        code = f"import socket; socket.socket(socket.AF_UNIX).connect({server.getsockname()!r})"
        completed = await run("python", "-c", code, prefix=python)
    assert b"ConnectionRefusedError" in completed.stderr


@needs_filter
async def test_hypervisor_socket_is_refused(run: Run, python: Path) -> None:
    """AF_VSOCK reaches the host of a virtual machine, and no network namespace stops it."""
    completed = await run("python", "-c", "import socket; socket.socket(socket.AF_VSOCK)", prefix=python)
    assert b"not supported by protocol" in completed.stderr


@needs_filter
async def test_kernel_keyrings_are_refused(run: Run, python: Path) -> None:
    code = (
        "import ctypes, os, platform\n"
        "number = {'x86_64': 250, 'aarch64': 219}[platform.machine()]\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "print(libc.syscall(number, 0, -3, 0), os.strerror(ctypes.get_errno()))"
    )
    completed = await run("python", "-c", code, prefix=python)
    assert completed.stdout == b"-1 Operation not permitted\n"


async def test_host_secrets_are_unreadable(run: Run, tmp_path: Path, python: Path) -> None:
    secret = tmp_path / "id_ed25519"
    secret.write_text("secret")
    secret.chmod(0o644)
    places = [str(secret), str(Path.home()), "/etc/shadow", "/etc/ssh", "/run", "/var", "/root/.ssh", "/home"]
    completed = await run("ls", "-d", *places, prefix=None)
    assert completed.stdout == b""
    assert completed.stderr.count(b"No such file") == len(places)


async def test_etc_reveals_nothing_of_the_host(run: Run) -> None:
    completed = await run("cat", "/etc/passwd", "/etc/group", "/etc/hosts", "/etc/resolv.conf", "/etc/hostname")
    assert socket.gethostname().encode() not in completed.stdout.split()
    assert completed.stdout.count(b"\n") == 11
    assert (await run("hostname")).stdout == b"sandbox\n"


async def test_environment_does_not_leak(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("LD_PRELOAD_HINT", "secret")
    completed = await run("env")
    expected = environment(Environments(()), home=_HOME, source_date_epoch=315532800, workspace="/workspace") | {
        "PWD": "/workspace"
    }
    assert dict(line.split("=", 1) for line in completed.stdout.decode().splitlines()) == expected


async def test_each_command_has_its_own_canary(run: Run) -> None:
    first, second = [(await run("cat", CANARY_FILE)).stdout for _ in range(2)]
    assert first != second
    for token in (first, second):
        assert canary_spans(token) == ((0, len(token)),)


async def test_descriptors_do_not_leak(run: Run, tmp_path: Path) -> None:
    with (tmp_path / "secret").open("w+") as secret:
        os.set_inheritable(secret.fileno(), True)
        completed = await run("sh", "-c", "ls /proc/self/fd")
    assert completed.stdout.split() == [b"0", b"1", b"2", b"3"]  # 3 is what ls itself opened


async def test_standard_input_is_empty(run: Run) -> None:
    completed = await run("cat")
    assert (completed.exit_code, completed.stdout) == (0, b"")


async def test_processes_of_the_host_are_not_seen(run: Run) -> None:
    completed = await run("sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert b"pytest" not in completed.stdout
    assert b"bwrap" not in completed.stdout


@pytest.mark.parametrize(
    "target", ["/usr/bin/new", "/etc/passwd", "/new", "/dev/new", "/proc/1/new", "/proc/sys/kernel/hostname", "/bin/sh"]
)
async def test_write_outside_the_workspace_is_refused(run: Run, target: str) -> None:
    completed = await run("sh", "-c", f"echo x >> {target}")
    assert completed.exit_code != 0
    assert any(word in completed.stderr for word in (b"Read-only", b"denied", b"nonexistent"))


async def test_prefix_is_read_only(run: Run, python: Path) -> None:
    completed = await run("touch", str(python / "new"), prefix=python)
    assert b"Read-only" in completed.stderr
    assert not (python / "new").exists()


async def test_prefix_shows_nothing_above_it(run: Run, python: Path) -> None:
    completed = await run("ls", "-A", str(python.parent), prefix=python)
    assert completed.stdout.split() == [python.name.encode()]


async def test_symlink_out_of_the_workspace_leads_nowhere(run: Run, place: Folder, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "secret").chmod(0o644)
    (place.path / "out").symlink_to(tmp_path / "secret")
    completed = await run("sh", "-c", "cat out; cat ../../../../../../../../tmp/../root/.bashrc; echo overwritten >out")
    assert completed.stdout == b""
    assert (tmp_path / "secret").read_text() == "secret"


async def test_nested_user_namespace_is_refused(run: Run, python: Path) -> None:
    assert (await run("unshare", "--user", "true")).exit_code != 0
    code = "import ctypes; libc = ctypes.CDLL(None, use_errno=True); print(libc.unshare(0x10000000), ctypes.get_errno())"
    assert (await run("python", "-c", code, prefix=python)).stdout.split()[0] == b"-1"


async def test_no_capability_is_left(run: Run) -> None:
    completed = await run("grep", "-E", "^(Cap|NoNewPrivs)", "/proc/self/status")
    values = dict(line.split(b":\t") for line in completed.stdout.splitlines())
    assert values.pop(b"NoNewPrivs") == b"1"
    assert {int(value, 16) for value in values.values()} == {0}


async def test_setuid_programs_gain_nothing(run: Run) -> None:
    completed = await run("sh", "-c", "cat /proc/self/mountinfo | grep ' /usr '")
    assert b"nosuid" in completed.stdout
    assert b" ro," in completed.stdout


async def test_mounts_cannot_be_changed(run: Run) -> None:
    completed = await run(
        "sh", "-c", "mount -t tmpfs x /tmp; umount /proc/1; mount -o remount,rw /usr; mkdir /tmp/m; mount --bind /usr /tmp/m"
    )
    assert completed.exit_code != 0
    assert (await run("ls", "-A", "/proc/1")).stdout == b""


@needs_filter
async def test_process_one_cannot_be_made_to_outlive_us(run: Run, python: Path) -> None:
    """Whoever could reach into process 1 could cancel its wish to die with its parent."""
    code = (
        "import ctypes, os\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "print(libc.ptrace(16, 1, 0, 0), ctypes.get_errno())\n"
        "print(libc.process_vm_writev(1, None, 0, None, 0, 0), ctypes.get_errno())\n"
        "print(os.listdir('/proc/1'))\n"
        "pid = os.fork() or os.execvp('sleep', ['sleep', '5'])\n"
        "print(libc.ptrace(16, pid, 0, 0))\n"
    )
    completed = await run("python", "-c", code, prefix=python)
    assert completed.stdout.splitlines() == [b"-1 1", b"-1 1", b"[]", b"0"]


@needs_filter
async def test_io_uring_and_bpf_are_refused(run: Run, python: Path) -> None:
    code = (
        "import ctypes, platform\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "bpf = {'x86_64': 321, 'aarch64': 280}[platform.machine()]\n"
        "print([(libc.syscall(number, 0, 0, 0), ctypes.get_errno()) for number in (425, bpf)])"
    )
    assert (await run("python", "-c", code, prefix=python)).stdout == b"[(-1, 1), (-1, 1)]\n"


async def test_command_does_not_run_as_root(run: Run, place: Folder) -> None:
    assert (await run("sh", "-c", "id -u; touch made")).stdout == b"1000\n"
    assert (place.path / "made").stat().st_uid == sandbox_account().uid != 0


async def test_tmp_is_private(run: Run) -> None:
    assert (await run("sh", "-c", "ls -A /tmp /tmp/home; touch /tmp/left")).stdout == b"/tmp:\nhome\n\n/tmp/home:\n"
    assert (await run("sh", "-c", "ls -A /tmp")).stdout == b"home\n"
    assert "left" not in os.listdir("/tmp")  # noqa: PTH208


async def test_place_below_dev_can_be_shown(sandbox: BubblewrapSandbox) -> None:
    """A state folder in memory, say; a service that is root then needs a /dev of its own for the way there."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name)
        os.chown(folder, sandbox_account().uid, sandbox_account().gid)
        completed = await sandbox.run(("touch", "made"), workspace=Folder(folder), prefix=None, limits=LIMITS)
        assert (completed.exit_code, os.listdir(folder)) == (0, ["made"])  # noqa: PTH208
