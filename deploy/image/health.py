#!/usr/bin/env python3
"""Check whether the service in this container is ready. Exit code 0: ready. 1: not ready; prints the reason."""

import os
import socket
import sys

_SECONDS = 4.0


def main() -> int:
    """Use plain sockets: the check runs every few seconds, and importing an HTTP client takes longer than the request."""
    port = int(os.environ.get("GATEWRIGHT_METRICS_PORT", "9464"))
    try:
        with socket.create_connection(("127.0.0.1", port), _SECONDS) as connection:
            connection.settimeout(_SECONDS)
            connection.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            answer = b"".join(iter(lambda: connection.recv(4096), b""))
    except OSError as error:
        sys.stdout.write(f"the service does not answer on port {port}: {error}\n")
        return 1
    head, _, body = answer.partition(b"\r\n\r\n")
    sys.stdout.write(body.decode("utf-8", "replace")[:1000])
    return 0 if head.split(b" ", 2)[1:2] == [b"200"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
