"""claude's hook: asks the supervisor before each tool call. Started as `python -I -S claude_gate.py WHAT FOLDER`.

WHAT is `ready` (SessionStart: reports that hooks run), `ask` (PreToolUse: the call on standard input) or `confirm`
(PermissionRequest: the call as it is about to run, whatever other hooks made of it). It imports as little as it can,
because every call waits for it, and whatever goes wrong is a denial: claude 2.1 ignores a hook that fails, so this one
must not. Exit code 2 denies.
"""

import json
import os
import socket
import sys
import time

PATIENCE = 50.0  # seconds; claude itself gives up, and goes on, after the 60 of its settings


def main() -> int:
    what, folder = sys.argv[1], sys.argv[2]
    call = json.loads(sys.stdin.buffer.read() or b"{}")
    if what == "ready":
        line = json.dumps({"type": "gate_ready", "at": time.time() * 1000})
        with open(os.path.join(folder, "bridge.jsonl"), "a", encoding="utf-8") as bridge:
            bridge.write(line + "\n")
        ask(folder, {"ready": True})
        return 0
    answer = ask(
        folder,
        {
            "tool": call["tool_name"],
            "input": call["tool_input"],
            "call": call.get("tool_use_id"),
            "agent": call.get("agent_id"),
            "session": call.get("session_id"),
            "cwd": call.get("cwd"),
            "transcript": call.get("transcript_path"),
            "mode": "confirm" if what == "confirm" else "defer",
        },
    )
    if answer["do"] != "none":
        sys.stdout.write(json.dumps({"hookSpecificOutput": said(what, answer["do"], answer.get("reason") or "")}))
    return 0


def said(what: str, do: str, reason: str) -> dict[str, object]:
    if what == "confirm":
        decision = {"behavior": "allow"} if do == "allow" else {"behavior": "deny", "message": reason}
        return {"hookEventName": "PermissionRequest", "decision": decision}
    return {"hookEventName": "PreToolUse", "permissionDecision": do, "permissionDecisionReason": reason}


def ask(folder: str, request: dict[str, object]) -> dict[str, str]:
    os.chdir(folder)  # the address of a socket may be no longer than 107 bytes
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(PATIENCE)
        connection.connect("gate.sock")
        connection.sendall(json.dumps(request).encode() + b"\n")
        received = b""
        while not received.endswith(b"\n"):
            data = connection.recv(65536)
            if not data:
                raise ConnectionError("the supervisor gave no answer")
            received += data
    answer: dict[str, str] = json.loads(received)
    if answer["do"] not in ("allow", "deny", "defer", "none"):
        raise ValueError("an answer of no known kind")
    return answer


if __name__ == "__main__":
    try:
        code = main()
    except BaseException as error:
        sys.stderr.write(f"the approval gate is closed: {type(error).__name__}: {error}")
        code = 2
    sys.exit(code)
