"""hatch: what ``hatch run`` starts is told where hatch installs nothing for it; variables go through."""
