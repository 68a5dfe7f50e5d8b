"""JavaScript and TypeScript: ``node --test``, mocha, jest and vitest, and the package managers that start them.

- ``commands.py``: which runner a command starts, through ``npm test`` and its kind and the scripts of package.json;
- ``places.py``: where the runner looks for tests, and so where a planted one is found;
- ``frameworks.py``: the frameworks of the port;
- ``reporters/``: what is loaded into the runner; ``NODE_OPTIONS`` reaches it through any package manager.

``node --test`` runs each test file in a process of its own and reports from another; mocha runs tests in the process that
reports. A further runner is one line in ``commands.py`` and ``preload.cjs``, one reporter, and its places.
"""
