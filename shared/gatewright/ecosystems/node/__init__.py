"""JavaScript and TypeScript: ``node --test``, mocha, jest and vitest, and the package managers that start them.

- ``commands.py``: the runner that a command starts, through ``npm test`` and similar and the scripts of package.json;
- ``places.py``: where the runner looks for tests, and so where a planted test is found;
- ``frameworks.py``: the frameworks of the port;
- ``reporters/``: files loaded into the runner; ``NODE_OPTIONS`` reaches it through any package manager.

``node --test`` runs each test file in a process of its own and reports from another; mocha runs tests in the process that
reports. A new runner needs one line in ``commands.py`` and ``preload.cjs``, one reporter, and its places.
"""
