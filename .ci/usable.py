"""Whether this Python can set up the project: its version, and the modules that Debian ships apart. Prints what to do if not.

It must be read by the Python that it turns away, so it is written for any.
"""

import sys

NEEDED = (3, 11)
OTHER = "or choose another Python: make PYTHON=/path/to/python3"


def fault():
    # type: () -> str
    """What is missing, in words; empty when nothing is."""
    mine = ".".join(str(number) for number in sys.version_info[:3])
    if sys.version_info[:2] < NEEDED:
        return "Python 3.11 or newer is needed, this is {} ({}); {}".format(mine, sys.executable, OTHER)
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError as error:
        package = "python{}.{}-venv".format(*sys.version_info[:2])
        return "Python {} ({}) has no module {}; Debian and Ubuntu: sudo apt install {}; {}".format(
            mine, sys.executable, error.name, package, OTHER
        )
    return ""


if __name__ == "__main__":
    sys.exit(fault() or None)
