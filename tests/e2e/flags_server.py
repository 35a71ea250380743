"""An MCP server on standard input and output with one tool: `set_flag` writes a key to a JSON file and to a log.

    python flags_server.py STATE.json AUDIT.log

It imports nothing of this package and speaks just enough of the protocol for both CLIs.
"""

import json
import os
import sys
import time

TOOL = {
    "name": "set_flag",
    "description": "Set a flag of production.",
    "inputSchema": {
        "type": "object",
        "properties": {"key": {"type": "string"}, "value": {"type": "string"}},
        "required": ["key", "value"],
    },
}


def write(state: str, audit: str, key: str, value: str) -> str:
    flags = {}
    if os.path.exists(state):
        with open(state, encoding="utf-8") as file:
            flags = json.load(file)
    flags[key] = value
    with open(state, "w", encoding="utf-8") as file:
        json.dump(flags, file)
    with open(audit, "a", encoding="utf-8") as file:
        file.write(f"{time.time():.3f} {key}={value}\n")
    time.sleep(float(os.environ.get("SET_FLAG_SECONDS", "0")))
    return f"{key} is {value}"


def answer(message: dict[str, object]) -> dict[str, object] | None:
    method = message.get("method")
    params = message.get("params")
    given = params if isinstance(params, dict) else {}
    if method == "initialize":
        version = given.get("protocolVersion", "2024-11-05")
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "f", "version": "1"}}
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        arguments = given["arguments"]
        text = write(sys.argv[1], sys.argv[2], arguments["key"], arguments["value"])
        return {"content": [{"type": "text", "text": text}]}
    return {}


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            reply = {"jsonrpc": "2.0", "id": message["id"], "result": answer(message)}
            sys.stdout.write(json.dumps(reply) + "\n")
            sys.stdout.flush()


main()
