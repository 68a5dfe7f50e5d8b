"""Publish a request, a contract or a CloudEvent with nats-py, the documented subjects and JSON, and print the verdict.

    python publish_python.py NATS_URL SEED_FILE DOCUMENT.json [REPOSITORY]

SEED_FILE is the publisher's identity from `gatewright keys bus`: publisher.nk, or publisher-NAME.nk for a named publisher.

Exit code 0: the run succeeded; 1: it did not; 2: the document was refused.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import nats
from nats.aio.client import Client


async def publish(url: str, seed: Path, document: dict[str, Any]) -> int:
    """Submit the document, then print the run's events until its bundle is sealed. Return the exit code."""
    identity = seed.stem
    client = await nats.connect(url, nkeys_seed=str(seed), inbox_prefix=f"_INBOX_{identity}")
    if "specversion" in document:
        headers = {"Content-Type": "application/cloudevents+json"}
    else:
        headers = {"Gw-Schema": "run_request.v1" if "request" in document else "task_contract.v1"}
    # A named publisher uses subjects that end in its name; the server refuses other subjects.
    name = identity.removeprefix("publisher").replace("-", ".", 1)
    answer = await client.request(f"gw.submit{name}", json.dumps(document).encode(), timeout=60, headers=headers)
    reply = json.loads(answer.data)
    if (answer.headers or {}).get("Gw-Schema") == "error.v1":
        print(f"refused: {reply['code']}: {reply['message']}")
        for fault in reply.get("faults", []):
            print(f"  {fault['pointer'] or '/'}: {fault['message']}")
        if reply.get("retry_after_seconds") is not None:
            print(f"  try again in {reply['retry_after_seconds']} s")
        await client.close()
        return 2
    print(f"accepted {reply['run_id']}")
    verdict = await follow(client, f"gw.events{name}", reply["run_id"])
    await client.close()
    return 0 if verdict == "SUCCESS" else 1


async def follow(client: Client, subject: str, run_id: str) -> str:
    """Print all events of the run and return its final status. Each request waits for new events."""
    status, seen, more = "RUNNING", 0, True
    while more:
        question = {"run_id": run_id, "after": seen, "wait_seconds": 20}
        answer = await client.request(subject, json.dumps(question).encode(), timeout=30)
        found = json.loads(answer.data)
        if (answer.headers or {}).get("Gw-Schema") == "error.v1":
            print(f"{found['code']}: {found['message']}")
            return status
        for event in found["events"]:
            seen = event["seq"]
            print(f"{event['ts']} {event['event_type']}")
            if event["event_type"] == "run_finished":
                payload = event["payload"]
                status = payload["status"]
                print(f"{status}: {payload['code']}: {payload['message']}")
            if event["event_type"] == "bundle_sealed":
                print(f"bundle {event['payload']['location']}")
        more = found["more"]
    return status


def main() -> int:
    """Read the arguments; the fourth one replaces the repository of the document."""
    if len(sys.argv) < 4:
        print(__doc__)
        return 2
    document = json.loads(Path(sys.argv[3]).read_text(encoding="utf-8"))
    if len(sys.argv) > 4:
        order = document["data"] if "specversion" in document else document
        order.setdefault("repository", {})["url"] = sys.argv[4]
    return asyncio.run(publish(sys.argv[1], Path(sys.argv[2]), document))


if __name__ == "__main__":
    sys.exit(main())
