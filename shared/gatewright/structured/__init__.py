"""Structured calls: a model is asked for one JSON document, which is judged here, asked for again, and refused in the end.

- ``answers.py``: what an answer must be: JSON alone, valid under its schema, for this very order, and right in itself;
- ``asking.py``: the bounded asking;
- ``session.py``: one task's way to its models, through the model gateway;
- ``recording.py``: what the role's document and the bundle keep of it.
"""
