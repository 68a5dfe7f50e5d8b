"""Whether containers can be run here: an engine that answers, compose, and the base images."""

from __future__ import annotations

import subprocess

#: What the Dockerfile and the compose file begin with.
BASE_IMAGES = ("python:3.12-slim", "nats:2.12-alpine")


def missing() -> str:
    """What is missing for the tests that run containers, in words; empty when nothing is."""
    for words in (("docker", "info", "--format", "{{.ServerVersion}}"), ("docker", "compose", "version")):
        if fault := _fault(words, 30):
            return f"`{' '.join(words[:2])}`: {fault}"
    for image in BASE_IMAGES:
        if _fault(("docker", "image", "inspect", image), 30) and (fault := _fault(("docker", "pull", "--quiet", image), 180)):
            return f"the image {image} cannot be had: {fault}"
    return ""


def _fault(words: tuple[str, ...], seconds: float) -> str:
    """The last words of a command that fails; empty when it does not."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=seconds)
    except FileNotFoundError:
        return f"there is no {words[0]} on PATH"
    except subprocess.TimeoutExpired:
        return f"no answer within {seconds:.0f} s"
    if done.returncode == 0:
        return ""
    said = (done.stderr or done.stdout).strip().splitlines()
    return said[-1] if said else f"exit code {done.returncode}"
