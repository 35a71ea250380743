"""Queue coding briefs, run them on pinned headless workers, and let git say what really happened."""

__version__ = "0.1.0"
