"""The process that prepares environments for hosts that have only the bus: ``python -m gatewright.app.puller``.

It writes them into a folder that the roles see, under the operator's ``egress.json``. It reads no run and no repository.
"""
