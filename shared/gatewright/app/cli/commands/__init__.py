"""The commands, one module a group. Their modules import Typer only; what a command needs is imported when it is called."""
