"""Reports on the log: sums in, tables of counts out (`values`), and these as Markdown (`markdown`) or a page (`page`).

Pure: the rows come from `store.figures`, the command line reads the clock and writes the file. All forms of a report
show the same tables. Rates are never printed bare: "12 of 40", because 1 of 1 is no 100 %.
"""

from __future__ import annotations

from dispatcher.report.values import GROUPS, Column, Report, Table, build

__all__ = ["GROUPS", "Column", "Report", "Table", "build"]
