"""Structured calls: asks a model for one JSON document, validates it, repeats the question a few times, and finally refuses.

- ``answers.py``: requirements on an answer: only JSON, valid under its schema, for this order, and consistent;
- ``asking.py``: the bounded retries;
- ``session.py``: a task's access to its models, through the model gateway;
- ``recording.py``: what the role's document and the bundle keep.
"""
