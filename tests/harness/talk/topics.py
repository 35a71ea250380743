"""What a worker may read, write and say while it works on code about failures. Every text in `topics.txt` is harmless.

Beside the words of people they hold what a naive matcher falls for: messages of the CLIs word for word, lines that look
like their events, log lines of their own format, statuses where a status may stand.
"""

from __future__ import annotations

import re
from pathlib import Path

_BLOCK = re.compile(r"^--- (\S+)\n(.*?)\n(?=--- |\Z)", re.MULTILINE | re.DOTALL)

TOPICS: dict[str, str] = dict(_BLOCK.findall(Path(__file__).with_name("topics.txt").read_text(encoding="utf-8")))
