"""The system in containers: a run from a clean checkout, workers that come and go, a sandbox that holds."""

from __future__ import annotations

import http.client
import json
import urllib.parse
from dataclasses import dataclass
from pathlib import Path

import pytest

from gatewright.bus.topology import ROLES
from tests.compose.deployment import (
    SERVICES,
    Deployment,
    engine,
    git,
    slow_request,
    unverified,
    wait_until,
)

pytestmark = pytest.mark.compose

EDIT = "python tools/edit.py 0 {paths}"
CHECK = "python tools/check.py 0"

#: Tries everything that a command must not be able to do; every line that it leaves is one that it could.
HOSTILE = rb"""import os, pathlib, socket, sys
could = []
def attempt(name, deed):
    try:
        deed()
    except OSError:
        return
    could.append(name)
def tcp(host, port):
    socket.create_connection((host, port), 2).close()
attempt("reach the bus", lambda: tcp("nats", 4222))
attempt("reach a service", lambda: tcp("gatekeeper", 9464))
attempt("reach itself", lambda: tcp("127.0.0.1", 9464))
attempt("reach the world", lambda: tcp("192.0.2.1", 443))
attempt("resolve a name", lambda: socket.getaddrinfo("nats", 4222))
for place in ("/etc/gatewright/identity", "/var/lib/gatewright", "/repositories", "/environments", "/srv/identities",
              "/opt/gatewright", "/run/docker.sock", "/var/run/docker.sock"):
    attempt("see " + place, lambda: os.stat(place))
attempt("write the system", lambda: open("/usr/written", "w").close())
attempt("read another's memory", lambda: open("/proc/1/mem", "rb").close())
attempt("become root", lambda: os.setuid(0))
attempt("change the kernel", lambda: open("/proc/sys/kernel/hostname", "w").write("mine"))
secrets = [name for name in os.environ if "GATEWRIGHT" in name or "NATS" in name]
could += ["see " + name for name in secrets]
for name in filter(str.isdigit, os.listdir("/proc")):
    place = pathlib.Path("/proc", name, "cmdline")
    attempt("see process " + name, lambda: b"services." in place.read_bytes() or os.stat("/none"))
if len(sys.argv) > 1:
    pathlib.Path(sys.argv[1]).write_text("edited = " + repr(could) + "\n")
sys.exit(1 if could and len(sys.argv) == 1 else 0)
"""


def test_a_clean_checkout_lands_a_run_with_a_verified_bundle(system: Deployment) -> None:
    project = system.make_project("first")
    code, result = system.order("first", "--exec", EDIT, "--test", CHECK)
    assert (code, result["status"]) == (0, "SUCCESS"), result
    assert git(project, "show", f"{result['branch']}:src/a.py") == "a = 1\nedited = True"
    assert git(project, "rev-parse", f"{result['commit']}^{{tree}}") == result["tree"]
    checked = system.cli("verify", result["bundle"], "--json")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    copied = system.folder / "bundle"
    system.do("cp", f"gatekeeper:{result['bundle']}", str(copied))
    assert json.loads((copied / "manifest.json").read_bytes())["run_id"] == result["run_id"]


def test_two_runs_land_on_one_branch_by_its_merge_queue(system: Deployment) -> None:
    project = system.make_project("queued")
    git(project, "checkout", "--quiet", "--detach")
    words = ("--exec", EDIT, "--test", "true", "--land", "queue", "--target-ref", "main")
    commits = []
    for path in ("src/a.py", "src/b.py"):
        code, result = system.order("queued", *words, scope=("--allow", path))
        assert (code, result["status"]) == (0, "SUCCESS"), result
        commits.append(result["commit"])
        checked = system.cli("verify", result["bundle"], "--repo", "/repositories/queued", "--json")
        assert checked.returncode == 0, checked.stdout + checked.stderr
    assert git(project, "rev-list", "--first-parent", "--reverse", "main").split()[1:] == commits


def test_a_refused_run_is_refused_here_too(system: Deployment) -> None:
    project = system.make_project("refused")
    code, result = system.order("refused", "--exec", "python tools/stray.py", "--test", CHECK)
    assert (code, result["failure"]["code"]) == (1, "path_out_of_scope")
    assert git(project, "branch", "--format=%(refname:short)") == "main"


@dataclass(frozen=True)
class Told:
    status: int
    headers: dict[str, str]
    text: str
    cookies: dict[str, str]


def ask_page(system: Deployment, path: str, *, host: str = "", form: dict[str, str] | None = None, cookie: str = "") -> Told:
    """One question to the live page as a browser on this host puts it."""
    connection = http.client.HTTPConnection("127.0.0.1", system.console, timeout=60)
    headers = {"Host": host or f"127.0.0.1:{system.console}", **({"Cookie": cookie} if cookie else {})}
    if form is not None:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    connection.request(
        "GET" if form is None else "POST", path, urllib.parse.urlencode(form) if form is not None else None, headers
    )
    answer = connection.getresponse()
    given = [each.split(";")[0].partition("=") for each in answer.headers.get_all("Set-Cookie") or ()]
    text = answer.read().decode("utf-8", "replace")
    told = Told(answer.status, dict(answer.getheaders()), text, {name: value for name, _, value in given})
    connection.close()
    return told


def test_the_live_page_shows_a_landed_run_after_sign_in(system: Deployment) -> None:
    system.make_project("watched")
    _, result = system.order("watched", "--exec", EDIT, "--test", CHECK)
    run_id = result["run_id"]
    for path in ("/healthz", "/readyz"):
        told = ask_page(system, path, host="10.0.0.7:8790")
        assert (told.status, told.text) == (200, "ok\n")
    assert ask_page(system, "/", host="elsewhere.example").status == 421
    for path in ("/", f"/runs/{run_id}", f"/runs/{run_id}/bundle.zip", "/system"):
        assert (ask_page(system, path).status, run_id in ask_page(system, path).text) == (303, False)
    token = system.inside("console", "cat", "/etc/gatewright/identity/viewer.token").strip()
    mark = ask_page(system, "/sign-in").cookies["gatewright_form"]
    signed_in = ask_page(system, "/sign-in", form={"token": token, "mark": mark}, cookie=f"gatewright_form={mark}")
    assert signed_in.status == 303, signed_in.text
    cookie = f"gatewright_form={mark}; gatewright_session={signed_in.cookies['gatewright_session']}"
    assert run_id in ask_page(system, "/", cookie=cookie).text
    verified = ask_page(system, f"/runs/{run_id}?verify=1", cookie=cookie)
    assert (verified.status, "Verified." in verified.text) == (200, True), verified.text[-3000:]
    taken = ask_page(system, f"/runs/{run_id}/bundle.zip", cookie=cookie)
    assert (taken.status, taken.headers["content-disposition"]) == (200, f'attachment; filename="{run_id}.zip"')
    assert ask_page(system, "/submit", cookie=cookie).status == 403
    held = system.inside("console", "ls", "/etc/gatewright/identity").split()
    assert held == [
        "approver.nk",
        "approver.token",
        "observer.nk",
        "operator.token",
        "publisher.nk",
        "viewer.token",
        "watcher.nk",
    ]
    surroundings = ask_page(system, "/system", cookie=cookie).text
    assert "every role answers" in surroundings or "to look at, first" in surroundings, surroundings
    assert all(f'<th scope="row">{role}</th>' in surroundings for role in ROLES), surroundings


def test_every_service_holds_its_own_identity_alone_and_no_capability(system: Deployment) -> None:
    for service in SERVICES:
        assert system.inside(service, "ls", "/etc/gatewright/identity").split() == [f"{service}.nk"]
        facts = dict(
            line.split(":\t", 1) for line in system.inside(service, "cat", "/proc/self/status").splitlines() if ":\t" in line
        )
        assert int(facts["CapEff"], 16) == int(facts["CapBnd"], 16) == 0
        assert (facts["NoNewPrivs"], facts["Seccomp"]) == ("1", "2")
        assert facts["Uid"].split()[0] != "0"


@pytest.mark.parametrize("service", ["worker", "testrunner"])
def test_the_sandbox_works_inside_the_container(service: str, system: Deployment) -> None:
    found = json.loads(system.do("exec", "-T", service, "gatewright", "doctor", "--json", check=False).stdout)
    sandbox = next(finding for finding in found["checks"] if finding["name"] == "sandbox")
    assert sandbox["ok"], sandbox
    assert "bubblewrap works" in sandbox["detail"]
    assert "overlay mounted" in sandbox["detail"]


def test_a_hostile_command_reaches_nothing_from_worker_or_testrunner(system: Deployment) -> None:
    project = system.make_project("hostile", {"tools/hostile.py": HOSTILE})
    words = ("--exec", "python tools/hostile.py src/a.py", "--test", "python tools/hostile.py")
    code, result = system.order("hostile", *words)
    assert (code, result["failure"]) == (0, None)
    assert git(project, "show", f"{result['branch']}:src/a.py") == "edited = []"
    outside = system.do("exec", "-T", "worker", "python", "/repositories/hostile/tools/hostile.py", "/tmp/found", check=False)
    assert "reach the bus" in system.inside("worker", "cat", "/tmp/found"), f"the attempts prove nothing: {outside.stderr}"


def test_workers_that_are_killed_and_started_again_lose_no_run(system: Deployment) -> None:
    scale(system, 4)
    assert len(system.containers("worker")) == 4
    with system.client() as client:
        runs = [client.submit_request(slow_request(name, 3.0, parts=2)) for name in projects(system, "killed")]
        wait_until(lambda: at_work(system) >= 2)
        system.do("kill", "worker")
        assert system.containers("worker") == []
        scale(system, 4)
        ended = [client.wait(run, timeout=120) for run in runs]
    assert [run.status for run in ended] == ["SUCCESS"] * len(runs), [run.failure for run in ended]
    assert unverified(system, runs) == []


def test_half_of_the_workers_may_die_for_good(system: Deployment) -> None:
    scale(system, 4)
    with system.client() as client:
        runs = [client.submit_request(slow_request(name, 2.0, parts=2)) for name in projects(system, "halved")]
        wait_until(lambda: at_work(system) >= 2)
        engine("kill", *system.containers("worker")[:2])
        ended = [client.wait(run, timeout=120) for run in runs]
    assert [run.status for run in ended] == ["SUCCESS"] * len(runs), [run.failure for run in ended]
    assert len(system.containers("worker")) == 2


def test_a_worker_whose_process_dies_is_started_again(system: Deployment) -> None:
    scale(system, 1)
    before = restarts(system, "worker")
    system.do("exec", "-T", "worker", "sh", "-c", "kill -9 -1", check=False)
    wait_until(lambda: restarts(system, "worker") == before + 1)
    scale(system, 1)  # healthy again
    system.make_project("again")
    code, result = system.order("again", "--exec", EDIT, "--test", CHECK)
    assert code == 0, result


def test_what_expires_goes_in_containers_that_are_asked_for(system: Deployment) -> None:
    """Rounds on the bus keep what is young, and end well; who deletes branches elsewhere has no identity and no bus."""
    system.make_project("kept")
    _, result = system.order("kept", "--exec", EDIT, "--test", CHECK)
    context = Path(str(system.compose.context))
    days = {"ledger": {"days": 7}, "artifacts": {"days": 7}, "dead": {"days": 30}, "branches": {"days": 7}}
    (context / "policies" / "retention.json").write_text(json.dumps({"version": "1", **days}))
    with (context / ".env").open("a") as settings:
        settings.write("GATEWRIGHT_BRANCHES_REPOSITORY=https://git.invalid/team/project.git\n")
    try:
        system.do("up", "--detach", "--wait", "--no-build", "--no-deps", "retention", seconds=180)
        assert json.loads(system.cli("show", result["run_id"], "--json").stdout)["run"]["status"] == "SUCCESS"
        assert (
            system.inside("retention", "ls", "/var/lib/gatewright/runs").split()
            == system.inside("gatekeeper", "ls", "/var/lib/gatewright/runs").split()
        )
        system.do("up", "--detach", "--no-build", "--no-deps", "branches")
        wait_until(lambda: "git.invalid" in system.do("logs", "--no-color", "branches").stdout, 120.0)
        assert "nats" not in system.inside("branches", "env")
        could = "find /etc/gatewright -name '*.nk'; touch /var/lib/gatewright/runs/new 2>/dev/null || echo only read"
        assert system.inside("branches", "sh", "-c", could).strip() == "only read"
    finally:
        system.do("rm", "--stop", "--force", "retention", "branches")


def scale(system: Deployment, workers: int) -> None:
    system.do("up", "--detach", "--wait", "--no-build", "--scale", f"worker={workers}", seconds=180)


def projects(system: Deployment, name: str) -> list[str]:
    """Several, since runs in one repository wait for each other's paths."""
    names = [f"{name}-{number}" for number in range(6)]
    for each in names:
        system.make_project(each)
    return names


def at_work(system: Deployment) -> int:
    """How many workers run a command just now."""
    return sum("tools/edit.py" in engine("top", worker) for worker in system.containers("worker"))


def restarts(system: Deployment, service: str) -> int:
    return sum(int(engine("inspect", "--format", "{{.RestartCount}}", each)) for each in system.containers(service))
