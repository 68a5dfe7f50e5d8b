"""Stands in for the `nats` command where the documentation's session is run: its options as the page uses them, a real client.

nats --server URL --nkey FILE --inbox-prefix PREFIX request|publish|subscribe SUBJECT [BODY] [options]
"""

from __future__ import annotations

import argparse
import asyncio
import sys

import nats


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for option in ("--server", "--nkey", "--inbox-prefix"):
        parser.add_argument(option, required=True)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("request", "publish", "subscribe"):
        one = verbs.add_parser(verb)
        one.add_argument("subject")
        if verb != "subscribe":
            one.add_argument("body")
        one.add_argument("-H", dest="headers", action="append", default=[])
        one.add_argument("--raw", action="store_true")
        one.add_argument("--jetstream", action="store_true")
        one.add_argument("--timeout", default="5s")
        one.add_argument("--count", type=int, default=1)
    return parser.parse_args()


async def main(given: argparse.Namespace) -> None:
    client = await nats.connect(given.server, nkeys_seed=given.nkey, inbox_prefix=given.inbox_prefix)
    headers = dict(header.split(":", 1) for header in given.headers) or None
    if given.verb == "request":
        seconds = float(given.timeout.removesuffix("s"))
        answer = await client.request(given.subject, given.body.encode(), timeout=seconds, headers=headers)
        sys.stdout.write(answer.data.decode() + "\n")
    elif given.verb == "publish":
        await client.jetstream().publish(given.subject, given.body.encode(), headers=headers)
    else:
        subscription = await client.subscribe(given.subject)
        for _ in range(given.count):
            sys.stdout.write((await subscription.next_msg(timeout=60)).data.decode() + "\n")
    await client.close()


if __name__ == "__main__":
    asyncio.run(main(arguments()))
