"""The prompts of models and agents: persona and shared rules, the order in its fixed sections, and fenced data.

- ``library.py``: personas and rules, from the operator's folder over built-in ones;
- ``sections.py``: the sections that every order has;
- ``prompt.py``: a composed prompt, its marker and its digests; and text of strangers, behind a fence that it cannot close;
- ``orders.py``: the order of pm, tech lead and reviewer, and version 1 of a worker's;
- ``worker_brief.py``: the order of a worker.
"""
