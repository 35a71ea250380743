"""The command line: what people type and read, and what it costs to start."""
