"""Check that this Python can set up the project: its version, and modules that Debian packages separately.

It prints what to do if not. Its syntax suits any Python, since an unsupported one must be able to run it.
"""

import sys

NEEDED = (3, 11)
OTHER = "or choose another Python: make PYTHON=/path/to/python3"


def fault():
    # type: () -> str
    """Return a message about what is missing, or an empty string."""
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
