"""Attempts to leave a pull, against Gatewright and ``@anthropic-ai/sandbox-runtime``: a Markdown table of what arrived.

    npm install --prefix DIR @anthropic-ai/sandbox-runtime@0.0.83
    python -m benchmarks.egress_peers --peer DIR [--node FILE] [--socat FILE] [--rg FILE]

Each product runs the same client in its own box, in a network of the benchmark's own where each address is this machine: what a
product lets out arrives, and nothing leaves the machine. Each product permits the same three host names, on one port. The
peer plays twice: as its CLI with a list of domains, and as its library at its strictest (it ends TLS, compares host names,
refuses opaque tunnels, and a filter permits ``GET`` and ``HEAD``).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import datetime as dt
import json
import os
import platform
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from gatewright.app.environments.plan import Installer
from gatewright.app.environments.pull import Registries, pull_phase
from gatewright.egress.allowed import AnyAddress
from gatewright.egress.authority import PullAuthority
from gatewright.egress.policy import EgressSource
from gatewright.sandbox.binary import find_bwrap
from gatewright.version import __version__
from tests.egress import hostile
from tests.egress.attempts import HONEST, ROWS, SPELLINGS
from tests.egress.registry import FILES, FOREIGN, INDEX, OTHER
from tests.egress.sniffer import OWN_NETWORK, Sniffer, give_no_capability

ADDRESS, ELSEWHERE, PORT = "198.51.100.2", "198.51.100.3", 8443
PERMITTED: Final = (INDEX, FILES, OTHER)
#: Names of other hosts, which all exist here.
NAMES: Final = (FOREIGN, *(SPELLINGS[each] for each in ("punycode homograph", "suffix", "prefix", "onion")))
GROUPS: Final = {
    "egress_host_mismatch": "several hosts in one request",
    "egress_host_refused": "other hosts and ports, and spellings of them",
    "egress_method_refused": "methods that change something",
    "egress_address_refused": "ambiguous paths",
    "egress_request_malformed": "messages with two readings",
    "canary_leaked": "a canary of the box in the address",
    "ways": "ways without the proxy",
}
#: What the README of the peer states as a goal, by column: groups, and attempts of other groups. Beyond names of hosts, it
#: "does not otherwise inspect the traffic"; ``ambiguousRequestTarget`` lists the paths that it refuses.
GOALS: Final = {
    "domains": {"egress_host_refused", "ways"},
    "strictest": {"egress_host_refused", "ways", "egress_host_mismatch", "egress_method_refused"}
    | {f"path with {each}" for each in ("double slash", "dot segment", "dot dot", "encoded dot dot", "half encoded dot dot")}
    | {"path with backslash", "absolute form with another host", "asterisk"},
}
#: It permits hosts and ports, not schemes.
NO_GOAL: Final = {"plain http", "https without a tunnel"}
LIBRARY: Final = """
import { spawn } from 'node:child_process'
const [place, settings, ...argv] = process.argv.slice(2)
const { SandboxManager } = await import(place)
const config = JSON.parse(settings)
config.network.filterRequest = async request => ({ action: ['GET', 'HEAD'].includes(request.method) ? 'allow' : 'deny' })
await SandboxManager.initialize(config)
const command = await SandboxManager.wrapWithSandbox(argv.map(each => `'${each}'`).join(' '))
spawn(command, { shell: true, stdio: 'inherit' }).on('exit', async code => { await SandboxManager.reset(); process.exit(code) })
"""


class Arrival(NamedTuple):
    """What one connection brought; ``sni`` None: no TLS."""

    at: float
    address: str
    port: int
    sni: str | None
    data: bytes


@dataclass
class Everywhere:
    """The registry, and all other hosts: it has a certificate for each name, and records the bytes that it gets."""

    contexts: Mapping[str, ssl.SSLContext]
    arrivals: list[Arrival] = field(default_factory=list)

    @contextlib.contextmanager
    def serving(self, *ports: int) -> Iterator[None]:
        with contextlib.ExitStack() as held:
            for port in ports:
                listening = held.enter_context(socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True))
                held.callback(listening.shutdown, socket.SHUT_RDWR)
                threading.Thread(target=self._accept, args=(listening,), daemon=True).start()
            yield

    def _accept(self, listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._take, args=(listening.accept()[0], time.monotonic()), daemon=True).start()

    def _take(self, taken: socket.socket, at: float) -> None:
        address, port = taken.getsockname()[:2]
        names: list[str] = []
        taken.settimeout(5)
        data, sni = b"", None
        try:
            if taken.recv(1, socket.MSG_PEEK) == b"\x16":
                taken = self._context(names).wrap_socket(taken, server_side=True)
                sni = names[0]
            while b"\r\n\r\n" not in data and (part := taken.recv(1 << 16)):
                at, data = time.monotonic() if not data else at, data + part
            taken.settimeout(0.05)
            with contextlib.suppress(OSError):
                data += taken.recv(1 << 16)
        except OSError:
            pass
        finally:
            self.arrivals.append(Arrival(at, address.removeprefix("::ffff:"), port, sni, data))
            with contextlib.suppress(OSError):
                taken.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nindex")
            taken.close()

    def _context(self, names: list[str]) -> ssl.SSLContext:
        def choose(tunnel: Any, name: str | None, _: ssl.SSLContext) -> None:
            names.append(name or "")
            tunnel.context = self.contexts.get(name or "", self.contexts[INDEX])

        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.sni_callback = choose
        return made


def judge(name: str, arrivals: list[Arrival]) -> str:
    """Return ``refused``, ``arrived``, or ``honest`` if what arrived is the honest request, or means the same.

    A connection to a permitted host that brings nothing is not an arrival.
    """
    brought = [each for each in arrivals if each.data or (each.address, each.port) != (ADDRESS, PORT)]
    if not brought:
        return "refused"
    return "honest" if all(_is_honest(name, each) for each in brought) else "arrived"


def _is_honest(name: str, arrival: Arrival) -> bool:
    head, _, body = arrival.data.decode("latin-1").partition("\r\n\r\n")
    first, *lines = head.split("\r\n")
    headers = [(each.partition(":")[0].strip().lower(), each.partition(":")[2].strip()) for each in lines]
    added = {each.partition(":")[0].strip().lower() for each in ROWS[name][0].headers} if name in ROWS else set()
    place = (arrival.address, arrival.port, _plain_host(arrival.sni or ""), first, body)
    hosts = [_plain_host(value) for key, value in headers if key == "host"]
    same = place == (ADDRESS, PORT, INDEX, HONEST.line, "") and hosts == [f"{INDEX}:{PORT}"]
    return same and not added & dict(headers).keys()


def _plain_host(host: str) -> str:
    """Return a host, with its port if it has one, in the one spelling that Gatewright accepts."""
    name, colon, port = host.lower().partition(":")
    return name.removesuffix(".") + colon + port.lstrip("0")


def entries() -> list[list[str | None]]:
    """Return what the client plays. The first and the last one are honest."""
    rows = {"honest": HONEST} | {name: attempt for name, (attempt, _) in ROWS.items()} | {"honest again": HONEST}
    return [
        [name, each.tunnel and each.tunnel.replace("{port}", str(PORT)), each.sni, each.text(PORT)]
        for name, each in rows.items()
    ]


def collect(output: bytes, arrivals: list[Arrival]) -> dict[str, str]:
    """Return the result of each attempt: an arrival belongs to the last attempt that began before it."""
    played = [json.loads(line) for line in output.splitlines() if line.startswith(b"[")]
    starts = [each[1] for each in played] + [float("inf")]
    results = {}
    for (name, start, _), end in zip(played, starts[1:], strict=True):
        results[name] = judge(name, [each for each in arrivals if start <= each.at < end])
    if "honest" in results and (results["honest"], results["honest again"]) != ("honest", "honest"):
        raise RuntimeError(f"the honest request did not arrive: {results['honest']}, {results['honest again']}: {played[:1]}")
    return results


class Run(NamedTuple):
    """Where one run of the client lies; ``folder`` is its own."""

    folder: Path
    options: argparse.Namespace
    certificate: Path

    def write(self, place: Path, attempts: list[list[str | None]], marks: Mapping[str, Any]) -> list[str]:
        for source in (hostile.__file__, str(Path(__file__).with_name("egress_player.py"))):
            shutil.copy(source, place)
        (place / "entries.json").write_text(json.dumps({"attempts": attempts, "marks": marks}))
        python = os.path.realpath(sys.executable)
        return [python, str(place / "egress_player.py"), str(place / "entries.json")]


Player = Callable[[Run, list[list[str | None]], Mapping[str, Any]], bytes]


def gatewright(run: Run, attempts: list[list[str | None]], marks: Mapping[str, Any]) -> bytes:
    hosts = [f"{each}:{PORT}" for each in PERMITTED]
    sources = (
        EgressSource(name="index", hosts=tuple(hosts[:2]), private=True, ecosystem="python", index="/simple"),
        EgressSource(name="other", hosts=(hosts[2],), private=True),
    )
    registries = Registries(sources, trusted=str(run.certificate))

    async def play() -> bytes:
        prefix = run.folder / "environment"
        prefix.mkdir()
        async with pull_phase(prefix, Installer({}), registries, lambda _: AnyAddress()) as phase:
            argv = run.write(phase.scratch, attempts, marks)
            return await phase.run(argv, toolchain=Path(argv[0]).parent.parent)

    return asyncio.run(play())


def peer(run: Run, attempts: list[list[str | None]], marks: Mapping[str, Any], *, strictest: bool = False) -> bytes:
    options = run.options
    network: dict[str, Any] = {"allowedDomains": [f"{each}:{PORT}" for each in PERMITTED], "deniedDomains": []}
    network["strictAllowlist"] = True
    if strictest:
        network |= {"tlsTerminate": {}, "requireHostMatch": True, "refuseOpaqueTunnels": True}
    settings = {
        "network": network,
        "filesystem": {"denyRead": [], "allowWrite": [], "denyWrite": []},
        "bwrapPath": str(find_bwrap().path),
        "socatPath": options.socat,
        "ripgrep": {"command": options.rg},
    }
    argv = run.write(run.folder, attempts, marks)
    package = options.peer / "node_modules/@anthropic-ai/sandbox-runtime/dist"
    (run.folder / "settings.json").write_text(json.dumps(settings))
    (run.folder / "library.mjs").write_text(LIBRARY)
    words = [str(package / "cli.js"), "--settings", str(run.folder / "settings.json"), "--", *argv]
    if strictest:
        words = [str(run.folder / "library.mjs"), str(package / "index.js"), json.dumps(settings), *argv]
    variables = {name: os.environ[name] for name in ("PATH", "HOME", "LD_LIBRARY_PATH") if name in os.environ}
    variables["NODE_EXTRA_CA_CERTS"] = str(run.certificate)
    done = subprocess.run([options.node, *words], cwd=run.folder, env=variables, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.decode("utf-8", "replace"))
    return done.stdout


PRODUCTS: Final[Mapping[str, Player]] = {
    "Gatewright": gatewright,
    "domains": peer,
    "strictest": lambda run, attempts, marks: peer(run, attempts, marks, strictest=True),
}


def packets_of_ways(marks: Mapping[str, Any]) -> dict[str, set[tuple[str, str, int]]]:
    """Return the packets by which a way would show outside of the box."""
    tcp = {
        "TCP to the registry": ADDRESS,
        "TCP to the host's loopback": "127.0.0.1",
        "TCP to the host's loopback, IPv6": "::1",
        "TCP to an IPv6 address": "2001:db8::2",
        "TCP to the metadata service": "169.254.169.254",
    }
    udp = {"DNS over UDP": "192.0.2.53", "DNS over UDP, IPv6": "2001:db8::53", "DNS of the host": "127.0.0.53"}
    return {
        **{name: {("tcp", address, int(marks["port"]))} for name, address in tcp.items()},
        **{name: {("udp", address, 53)} for name, address in udp.items()},
        "DNS over TCP": {("tcp", "192.0.2.53", 53)},
        "ICMP": {("icmp", "192.0.2.1", 0)},
        "ICMP without a raw socket": {("icmp", "192.0.2.2", 0)},
        "raw frame": {("0x88b5", "", 0)},
    }


def show_that_ways_arrive(run: Run) -> None:
    """Raises RuntimeError if a way does not arrive without a box."""

    def play(run: Run, attempts: list[list[str | None]], marks: Mapping[str, Any]) -> bytes:
        return subprocess.run(run.write(run.folder, attempts, marks), capture_output=True, check=True).stdout

    run.folder.mkdir()
    lost = [name for name, result in ways_of(play, run).items() if result != "arrived"]
    if lost:
        raise RuntimeError(f"without a box these do not arrive: {lost}")


def ways_of(play: Player, run: Run) -> dict[str, str]:
    """Play the ways without a proxy: a sniffer and two listening sockets show what leaves the box."""
    with contextlib.ExitStack() as held:
        names = {
            "Unix socket of the host": str(run.folder / "host.sock"),
            "abstract Unix socket of the host": f"peers-{run.folder}",
        }
        marks = {"registry": [ADDRESS, PORT], "port": PORT, **dict(zip(("unix", "abstract"), names.values(), strict=True))}
        servers = {}
        for name, place in names.items():
            servers[name] = held.enter_context(socket.socket(socket.AF_UNIX))
            servers[name].bind(place if place.startswith("/") else "\0" + place)
            servers[name].listen()
            servers[name].setblocking(False)
        host = Sniffer.here()
        play(run, [], marks)
        seen = {(each.kind, each.target, each.target_port) for each in host.packets()}
        results = {name: "arrived" if _has_connection(server) else "refused" for name, server in servers.items()}
    shown = packets_of_ways(marks)
    foreign = any(kind == "udp" and port == 53 for kind, _, port in seen - set().union(*shown.values()))
    results |= {name: "arrived" if packets & seen else "refused" for name, packets in shown.items()}
    return {**results, "name service": "arrived" if foreign else "refused"}


def _has_connection(server: socket.socket) -> bool:
    try:
        server.accept()[0].close()
    except OSError:
        return False
    return True


def measure(options: argparse.Namespace, folder: Path) -> dict[str, dict[str, str]]:
    """Return the results by product and attempt."""
    names = (*PERMITTED, *NAMES, "localhost", "127.0.0.1")
    signer = PullAuthority(names, dt.datetime.now(dt.UTC))
    (folder / "authority.pem").write_bytes(signer.certificate)
    (folder / "hosts").write_text(f"127.0.0.1 localhost\n{ADDRESS} {' '.join(PERMITTED)}\n{ELSEWHERE} {' '.join(NAMES)}\n")
    subprocess.run(["mount", "--bind", folder / "hosts", "/etc/hosts"], check=True)
    show_that_ways_arrive(Run(folder / "control", options, folder / "authority.pem"))
    give_no_capability()
    results: dict[str, dict[str, str]] = {}
    for product, play in PRODUCTS.items():
        server = Everywhere({name: signer.context(name, lambda _: None) for name in names})
        with server.serving(PORT, 1, 21, 22, 80, 443):
            runs = [Run(folder / f"{product}-{part}", options, folder / "authority.pem") for part in ("attempts", "ways")]
            for run in runs:
                run.folder.mkdir()
            output = play(runs[0], entries(), {})
            results[product] = collect(output, server.arrivals) | ways_of(play, runs[1])
    return results


def report(results: dict[str, dict[str, str]], options: argparse.Namespace) -> Iterator[str]:
    """Yield the lines of the Markdown page."""
    package = json.loads((options.peer / "node_modules/@anthropic-ai/sandbox-runtime/package.json").read_text())
    node = subprocess.run([options.node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    yield f"Gatewright {__version__}, {package['name']} {package['version']}, Node {node}, bubblewrap"
    yield f"{'.'.join(map(str, find_bwrap().version))}, Linux {platform.release()}, {dt.datetime.now(dt.UTC):%Y-%m-%d}."
    groups = {name: code for name, (_, code) in ROWS.items()} | dict.fromkeys(packets_of_ways({"port": PORT}), "ways")
    groups |= dict.fromkeys((name for name in results["Gatewright"] if name not in groups and "honest" not in name), "ways")
    words = {
        (product, name): _word(product, name, code, results[product][name])
        for product in PRODUCTS
        for name, code in groups.items()
    }
    yield from ("", "| attempts | number | Gatewright | peer, domains | peer, strictest |", "|---|---|---|---|---|")
    for code, title in GROUPS.items():
        members = [name for name, group in groups.items() if group == code]
        cells = [_count([words[product, name] for name in members]) for product in PRODUCTS]
        yield f"| {title} | {len(members)} | {' | '.join(cells)} |"
    yield from ("", "| attempt | group | Gatewright | peer, domains | peer, strictest |", "|---|---|---|---|---|")
    for name, code in groups.items():
        yield f"| {name} | {GROUPS[code]} | {' | '.join(words[product, name] for product in PRODUCTS)} |"


def _count(words: list[str]) -> str:
    return ", ".join(f"{words.count(each)} {each}" for each in ("refused", "honest", "no goal", "arrived") if each in words)


def _word(product: str, name: str, code: str, result: str) -> str:
    """Return the result; an arrival that the peer does not claim to refuse is ``no goal``."""
    claimed = product not in GOALS or (bool({name, code} & GOALS[product]) and name not in NO_GOAL)
    return result if claimed or result != "arrived" else "no goal"


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the egress gateway with a peer.")
    parser.add_argument("--peer", type=Path, required=True)
    for program in ("node", "socat", "rg"):
        parser.add_argument(f"--{program}", default=shutil.which(program))
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.inside:
        argv = [*OWN_NETWORK, sys.executable, "-m", "benchmarks.egress_peers", *sys.argv[1:], "--inside"]
        raise SystemExit(subprocess.run(argv, check=False).returncode)
    with tempfile.TemporaryDirectory(prefix="gatewright-peers-") as name:
        print("\n".join(report(measure(options, Path(name)), options)))


if __name__ == "__main__":
    main()
