"""The configuration of a home: which folder it is, whether it is trusted, what its models.yaml says.

homes.py     which folder is the home; trust; logs and database
load.py      models.yaml -> Config, parsed again only when it changed
build.py     what each key means            read.py   one value: type, range, spelling
model.py     the typed result
programs.py  where the CLIs are installed
initial.py   the models.yaml that fits this machine (for `init`; imported only there)
"""

from __future__ import annotations

from dispatcher.config.homes import database, find_home, is_trusted, logs_dir, require_trust, state_folder, trust
from dispatcher.config.load import load
from dispatcher.config.model import (
    FILE_NAME,
    ApprovalsConfig,
    Config,
    HarnessConfig,
    PolicyText,
    RepositoryConfig,
    SandboxConfig,
)
from dispatcher.config.programs import find_program, search_path

__all__ = [
    "FILE_NAME",
    "ApprovalsConfig",
    "Config",
    "HarnessConfig",
    "PolicyText",
    "RepositoryConfig",
    "SandboxConfig",
    "database",
    "find_home",
    "find_program",
    "is_trusted",
    "load",
    "logs_dir",
    "require_trust",
    "search_path",
    "state_folder",
    "trust",
]
