"""Puts the pip that comes with a Python into a fresh virtual environment: unpacked, which is all that installing it amounts to.

``venv`` would start that pip, from its archive, to install itself, and compile all of it: most of the time that a small
environment takes. Here only what is used of it is ever compiled. Nothing is fetched.
"""

from __future__ import annotations

#: Run by the environment's own interpreter while nothing else is in it. Before 3.12 an environment has setuptools, too, as the
#: one of ``venv`` has. ``WHEEL_PKG_DIR`` is where distributions keep these wheels.
UNPACK = """
import glob, os, sys, sysconfig, zipfile
try:
    import ensurepip
except ImportError:
    sys.exit("this Python has no ensurepip: install what it needs to make environments (python3-venv), or give --env DIR")
folders = (sysconfig.get_config_var("WHEEL_PKG_DIR"), os.path.join(ensurepip.__path__[0], "_bundled"))
for name in ("pip",) if sys.version_info >= (3, 12) else ("pip", "setuptools"):
    for folder in filter(None, folders):
        wheels = sorted(glob.glob(os.path.join(glob.escape(folder), name + "-*.whl")))
        if wheels:
            with zipfile.ZipFile(wheels[-1]) as wheel:
                wheel.extractall(sysconfig.get_path("purelib"))
            break
    else:
        sys.exit("this Python has ensurepip, and no wheel of " + name + " with it: give --env DIR")
for name in ("pip", "pip3", "pip%d.%d" % sys.version_info[:2]):
    place = os.path.join(sysconfig.get_path("scripts"), name)
    with open(place, "w", encoding="utf-8") as script:
        script.write("#!" + sys.executable + "\\nimport sys\\nfrom pip._internal.cli.main import main\\nsys.exit(main())\\n")
    os.chmod(place, 0o755)
"""
