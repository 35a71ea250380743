"""The server as a plain HTTP client sees it: both protocols, every way to fail, and an end that waits for nobody."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dispatcher.demo.model_server import ModelServer

OPENAI = "/v1/chat/completions"
ANTHROPIC = "/v1/messages?beta=true"
ENVIRONMENT = "<env>\n  Working directory: /repo\n</env>"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


def body(prompt: str = "Do it.", **rest: Any) -> dict[str, Any]:
    """A main call: it offers a tool. Both protocols read the same system message."""
    messages = [{"role": "system", "content": ENVIRONMENT}, {"role": "user", "content": prompt}]
    return {"model": "m1", "messages": messages, "tools": [{"name": "bash"}], **rest}


def connect(server: ModelServer) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=20)


def post(server: ModelServer, path: str, content: dict[str, Any]) -> tuple[int, str]:
    connection = connect(server)
    try:
        connection.request("POST", path, json.dumps(content), {"X-Session-Id": "ses_1"})
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def events(text: str) -> list[dict[str, Any]]:
    """The data of each server-sent event that is JSON."""
    data = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(one) for one in data if one != "[DONE]"]


def test_openai_answers_whole_with_opencodes_tools(server: ModelServer) -> None:
    server.script(
        "m1", [{"text": "Go.", "write": {"path": "a.txt", "content": "x"}, "usage": {"input": 7, "output": 2}}]
    )
    answer = json.loads(post(server, OPENAI, body())[1])
    [choice] = answer["choices"]
    [call] = choice["message"]["tool_calls"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] == "Go."
    assert call["function"]["name"] == "write"
    assert json.loads(call["function"]["arguments"]) == {"filePath": "/repo/a.txt", "content": "x"}
    assert answer["usage"]["total_tokens"] == 9


def test_openai_streams_the_same(server: ModelServer) -> None:
    server.script("m1", [{"text": "Go on.", "shell": "ls"}])
    status, text = post(server, OPENAI, body(stream=True))
    *chunks, last = events(text)
    assert status == 200
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == "Go on."
    [call] = [
        chunk["choices"][0]["delta"]["tool_calls"][0]
        for chunk in chunks
        if "tool_calls" in chunk["choices"][0]["delta"]
    ]
    assert json.loads(call["function"]["arguments"])["command"] == "ls"
    assert last["usage"]["prompt_tokens"] == 1200
    assert text.endswith("data: [DONE]\n\n")


def test_anthropic_answers_whole_with_claudes_tools(server: ModelServer) -> None:
    server.script(
        "m1", [{"text": "Go.", "edit": {"path": "a.txt", "old": "x", "new": "y"}, "headers": {"x-limit": "7"}}]
    )
    answer = json.loads(post(server, ANTHROPIC, body())[1])
    said, use = answer["content"]
    assert answer["stop_reason"] == "tool_use"
    assert said == {"type": "text", "text": "Go."}
    assert (use["name"], use["input"]) == ("Edit", {"file_path": "/repo/a.txt", "old_string": "x", "new_string": "y"})


def test_anthropic_streams_the_same(server: ModelServer) -> None:
    server.script("m1", [{"text": "Go on.", "shell": "ls", "usage": {"cache_read": 5}}])
    found = events(post(server, ANTHROPIC, body(stream=True))[1])
    deltas = [event["delta"] for event in found if event["type"] == "content_block_delta"]
    assert [event["type"] for event in found][0 :: len(found) - 1] == ["message_start", "message_stop"]
    assert found[0]["message"]["usage"]["cache_read_input_tokens"] == 5
    assert "".join(delta.get("text", "") for delta in deltas) == "Go on."
    assert json.loads(deltas[-1]["partial_json"])["command"] == "ls"


def test_a_side_call_uses_up_no_step(server: ModelServer) -> None:
    server.script("m1", [{"text": "the only one"}])
    assert "Scripted title" in post(server, OPENAI, body(tools=[]))[1]
    assert "the only one" in post(server, OPENAI, body())[1]
    assert [request.main for request in server.requests] == [False, True]


@pytest.mark.parametrize(
    ("path", "kind", "place"), [(OPENAI, "rate_limit_error", ""), (ANTHROPIC, "rate_limit_error", "error")]
)
def test_an_error_has_the_form_of_its_protocol(server: ModelServer, path: str, kind: str, place: str) -> None:
    server.script("m1", [{"error": {"status": 429, "message": "slow down", "headers": {"retry-after": "3600"}}}])
    connection = connect(server)
    connection.request("POST", path, json.dumps(body()))
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    assert (response.status, response.getheader("retry-after")) == (429, "3600")
    assert (answer["error"]["type"], answer["error"]["message"]) == (kind, "slow down")
    assert answer.get("type", "") == place


def test_a_raw_error_body_goes_out_as_it_is(server: ModelServer) -> None:
    server.script("m1", [{"error": {"status": 502, "body": "<html>Bad Gateway</html>"}}])
    assert post(server, OPENAI, body()) == (502, "<html>Bad Gateway</html>")


def test_an_error_can_come_inside_a_stream(server: ModelServer) -> None:
    """claude asks again without a stream after that: then it is a plain error."""
    server.script("m1", [{"text": "half", "error": {"status": 529, "in_stream": True}, "repeat": True}])
    status, text = post(server, ANTHROPIC, body(stream=True))
    assert status == 200
    assert events(text)[-1]["error"]["type"] == "overloaded_error"
    assert post(server, ANTHROPIC, body())[0] == 529


def test_a_stream_can_end_without_a_finish(server: ModelServer) -> None:
    server.script("m1", [{"text": "half", "finish": False}, {"text": "cut", "finish": "length"}])
    assert all(
        event["choices"][0]["finish_reason"] is None for event in events(post(server, OPENAI, body(stream=True))[1])
    )
    assert '"finish_reason": "length"' in post(server, OPENAI, body(stream=True))[1]


@pytest.mark.parametrize("moment", ["before", "headers", "middle"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_dropped_connection_is_seen_as_an_error(server: ModelServer, moment: str, stream: bool) -> None:
    server.script("m1", [{"text": "a longer text", "drop": moment}])
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        post(server, OPENAI, body(stream=stream))


@pytest.mark.parametrize("moment", ["before", "headers", "middle"])
def test_closing_ends_an_answer_that_hangs(moment: str) -> None:
    """A worker was killed or a test failed while the server hung on purpose: closing must not wait for anybody."""
    before = threading.active_count()
    with ModelServer({"m1": [{"text": "a longer text", "hang": moment}]}) as server:
        connection = connect(server)
        connection.request("POST", OPENAI, json.dumps(body(stream=True)))
        server.wait_for(1)
    connection.close()
    assert threading.active_count() == before


def test_closing_ends_a_slow_answer_and_an_idle_connection() -> None:
    before = threading.active_count()
    with ModelServer({"m1": [{"text": "late", "slow": 3600}]}) as server:
        slow, idle = connect(server), connect(server)
        slow.request("POST", OPENAI, json.dumps(body()))
        idle.request("GET", "/")
        idle.getresponse().read()
        server.wait_for(1)
    slow.close()
    idle.close()
    assert threading.active_count() == before


def test_what_has_no_script_says_so(server: ModelServer) -> None:
    server.script("m1", [])
    assert post(server, OPENAI, body())[0] == 400
    assert post(server, OPENAI, body(model="m2"))[0] == 404
    assert post(server, "/v1/other", body())[0] == 404


def test_hello_and_token_counts(server: ModelServer) -> None:
    connection = connect(server)
    connection.request("HEAD", "/api/hello")
    assert connection.getresponse().read() == b""
    connection.close()
    status, text = post(server, "/v1/messages/count_tokens", body())
    assert (status, json.loads(text)["input_tokens"] > 0) == (200, True)


def test_a_request_remembers_what_the_worker_sent(server: ModelServer) -> None:
    """Reminders and tool results are the CLI's own words: the prompt is what was on stdin."""
    server.script("m1", [{"text": "ok", "when": "the brief"}])
    asked = [
        {"type": "text", "text": "<system-reminder>AGENTS</system-reminder>"},
        {"type": "text", "text": "the brief"},
    ]
    result = [{"type": "tool_result", "tool_use_id": "call_1_0", "content": "out"}]
    messages = [{"role": "user", "content": asked}, {"role": "user", "content": result}]
    assert post(server, ANTHROPIC, body(messages=messages, system="You are."))[0] == 200
    [request] = server.requests
    assert (request.prompt, request.system, request.tools) == ("the brief", "You are.", ("bash",))
    assert (request.session, request.protocol, request.model) == ("ses_1", "anthropic", "m1")
    assert "AGENTS" in request.text


def test_waiting_is_woken_by_a_request_and_gives_up_in_time(server: ModelServer) -> None:
    server.script("m1", [{"text": "ok"}])
    caller = threading.Thread(target=post, args=(server, OPENAI, body()))
    caller.start()
    assert [request.model for request in server.wait_for(1)] == ["m1"]
    caller.join()
    with pytest.raises(TimeoutError, match="1 of 2"):
        server.wait_for(2, timeout=0.01)


def test_as_a_program_it_prints_its_url_serves_logs_and_ends_on_term(tmp_path: Path) -> None:
    script, log = tmp_path / "script.json", tmp_path / "log.jsonl"
    script.write_text(json.dumps({"models": {"m1": [{"text": "hello from a file"}]}}))
    command = [sys.executable, "-m", "dispatcher.demo.model_server", "--script", str(script), "--log", str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout is not None
            host = program.stdout.readline().strip().removeprefix("http://")
            connection = http.client.HTTPConnection(host, timeout=20)
            connection.request("POST", OPENAI, json.dumps(body()))
            assert b"hello from a file" in connection.getresponse().read()
            connection.close()
            program.send_signal(signal.SIGTERM)
            assert program.wait(20) == 0
        finally:
            program.kill()
    [line] = log.read_text().splitlines()
    assert json.loads(line)["body"]["messages"][1]["content"] == "Do it."
