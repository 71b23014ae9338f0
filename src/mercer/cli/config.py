"""Options from a TOML file."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

import typer

__all__ = ["read_config"]


def read_config(context: typer.Context, path: str | None) -> str | None:
    """Make the values of a TOML file the defaults of a command.

    Values are at the top of the file or in a table with the name of the command, which takes precedence. Names are
    those of the flags, with hyphens or underscores; values at the top that another command has are ignored.
    """
    if path is None or context.resilient_parsing:
        return path
    import tomllib

    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be read: {error.strerror}.") from error  # noqa: EM102
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{path} is not a TOML file: {error}.") from error  # noqa: EM102
    command = str(context.info_name)
    names = _names(context.command)
    everywhere = set(names)
    if context.parent is not None:
        commands: dict[str, Any] = getattr(context.parent.command, "commands", {})
        everywhere = {name for one in commands.values() for name in _names(one)} | set(commands)
    values: dict[str, Any] = {}
    for key, value in content.items():
        name = key.replace("-", "_")
        if isinstance(value, dict):
            if key not in everywhere:
                _raise_unknown(key, path, everywhere)
            continue
        if name in names:
            values[names[name]] = value
        elif name not in everywhere:
            _raise_unknown(key, path, names)
    for key, value in content.get(command, {}).items():
        name = key.replace("-", "_")
        if name not in names:
            _raise_unknown(key, f"{path}, [{command}]", names)
        values[names[name]] = value
    for name, value in values.items():
        if isinstance(value, dict):
            raise typer.BadParameter(f"{path}: {name} must be a single value or a list.")  # noqa: EM102
    context.default_map = {**(context.default_map or {}), **values}
    return path


def _names(command: Any) -> dict[str, str]:
    """Return the names that the options of a command have in a file, with the names of their parameters."""
    names: dict[str, str] = {}
    for one in command.params:
        for flag in [*getattr(one, "opts", ()), one.name]:
            names[str(flag).lstrip("-").replace("-", "_")] = one.name
    for name in ("config", "help", "version", "install_completion", "show_completion"):
        names.pop(name, None)
    return names


def _raise_unknown(key: str, where: str, known: Any) -> None:
    near = difflib.get_close_matches(key.replace("-", "_"), list(known), n=1)
    hint = f" Did you mean {near[0].replace('_', '-')!r}?" if near else ""
    raise typer.BadParameter(f"{where} has an unknown option {key!r}.{hint}")  # noqa: EM102
