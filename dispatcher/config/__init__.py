"""The configuration of a home: which folder it is, whether it is trusted, what its models.yaml says.

    homes.py     which folder is the home; trust; logs and database
    loader.py    models.yaml -> Config, parsed again only when it changed
    build.py     the sections of models.yaml    read.py   one value: type, range, spelling
    workers.py, places.py, starting.py           what each key means
    model.py     the typed result               room.py   the part of it for `status`
    programs.py  where the CLIs are installed
    initial.py   the models.yaml that fits this machine, for `init`

Each part is imported when one of its names is asked for: most commands only want to know where the database is.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dispatcher.config.homes import FILE_NAME as FILE_NAME
    from dispatcher.config.homes import database as database
    from dispatcher.config.homes import find_home as find_home
    from dispatcher.config.homes import is_trusted as is_trusted
    from dispatcher.config.homes import logs_dir as logs_dir
    from dispatcher.config.homes import require_trust as require_trust
    from dispatcher.config.homes import state_folder as state_folder
    from dispatcher.config.homes import trust as trust
    from dispatcher.config.loader import load as load
    from dispatcher.config.loader import outline as outline
    from dispatcher.config.model import ApprovalsConfig as ApprovalsConfig
    from dispatcher.config.model import Config as Config
    from dispatcher.config.model import HarnessConfig as HarnessConfig
    from dispatcher.config.model import PolicyText as PolicyText
    from dispatcher.config.model import RepositoryConfig as RepositoryConfig
    from dispatcher.config.model import SandboxConfig as SandboxConfig
    from dispatcher.config.programs import find_program as find_program
    from dispatcher.config.programs import search_path as search_path

_PARTS = {
    "homes": ("FILE_NAME", "database", "find_home", "is_trusted", "logs_dir", "require_trust", "state_folder", "trust"),
    "loader": ("load", "outline"),
    "model": ("ApprovalsConfig", "Config", "HarnessConfig", "PolicyText", "RepositoryConfig", "SandboxConfig"),
    "programs": ("find_program", "search_path"),
}
_PART_OF = {name: part for part, names in _PARTS.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _PART_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_PART_OF[name]}"), name)
    globals()[name] = value
    return value
