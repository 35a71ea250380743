"""What applies to one task: the brief over the repository's entry over the defaults of models.yaml."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dispatcher import brief as briefs
from dispatcher.review import about
from dispatcher.task import Brief, Candidate, CopyMode, Deliver, Expect, Limits, Task, Tools

if TYPE_CHECKING:
    from dispatcher.config import Config, RepositoryConfig

COMPARISON = "comparison"  # flag of a task that is one of several runs of the same brief

_ORDER = (Tools.READ, Tools.EDIT, Tools.FULL)


@dataclass(frozen=True)
class Settings:
    brief: Brief
    limits: Limits
    tools: Tools
    expect: Expect
    setup: tuple[str, ...]
    verify: tuple[str, ...]
    hidden_checks: str | None
    copy_mode: CopyMode
    copy_files: tuple[str, ...]
    credentials: tuple[str, ...] | None
    keep_daemons: tuple[str, ...]
    trusted: bool
    sandbox: str | None
    base: str | None  # of the repository's entry; the brief's own is in `brief`
    deliver: Deliver
    auto_accept: str | None

    def tools_for(self, candidate: Candidate) -> Tools:
        """The narrower of what the task and the candidate allow; a report never gets a tool that writes."""
        if self.expect is Expect.REPORT:
            return Tools.READ
        allowed = candidate.tools or self.tools
        return min(self.tools, allowed, key=_ORDER.index)


def settings_for(config: Config, task: Task) -> Settings:
    """Merge brief, repository and defaults; raises BriefError when the stored brief no longer parses."""
    brief = briefs.parse(task.brief_text, file=task.brief_path or f"task {task.id}")
    repository = config.repository(task.repository)
    settings = _merged(config, task, brief, repository)
    if COMPARISON in task.flags:  # nothing of it is decided by itself, and no run sees the files of another one
        return replace(settings, deliver=Deliver.BRANCH, auto_accept=None, copy_mode=CopyMode.CLONE)
    return settings


def _merged(config: Config, task: Task, brief: Brief, repository: RepositoryConfig) -> Settings:
    return Settings(
        brief=brief,
        limits=replace(config.limits, **brief.limits),  # type: ignore[arg-type]
        tools=brief.tools or repository.tools or Tools.EDIT,
        expect=task.expect,
        setup=brief.setup if brief.setup is not None else repository.setup,
        verify=brief.verify if brief.verify is not None else repository.verify,
        hidden_checks=brief.hidden_checks or repository.hidden_checks,
        copy_mode=CopyMode.CLONE if about(task) is not None else repository.copy_mode or config.copy_mode,
        copy_files=repository.copy_files,
        credentials=repository.credentials,
        keep_daemons=repository.keep_daemons,
        trusted=repository.trust,
        sandbox=brief.sandbox or repository.sandbox,
        base=repository.base,
        deliver=brief.deliver if brief.deliver is Deliver.PR else repository.deliver or Deliver.BRANCH,
        auto_accept=brief.auto_accept or repository.auto_accept,
    )
