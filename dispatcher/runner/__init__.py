"""One task: candidate -> attempt -> outcome -> evidence -> verdict, until it rests."""

from dispatcher.runner.context import Context
from dispatcher.runner.walk import recover, run_task

__all__ = ["Context", "recover", "run_task"]
