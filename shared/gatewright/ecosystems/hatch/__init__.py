"""hatch: commands of ``hatch run`` can be instrumented if hatch installs nothing for them; it passes variables on."""
