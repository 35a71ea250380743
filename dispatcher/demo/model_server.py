"""A scripted model server on loopback, so that the real opencode and the real claude run offline and unmodified.

It speaks OpenAI chat completions (`POST /v1/chat/completions`) and Anthropic messages (`POST /v1/messages`, also
`/v1/messages/count_tokens`), streaming or not, and answers any GET or HEAD with 200. What it says is a script per model
id; the steps are described in `dispatcher.demo.script`.

    with ModelServer({"m1": [{"shell": "git commit -qam work"}, {"text": "Done."}]}) as server:
        environment = {**clean, **opencode_environment(server.url, ["m1"])}        # model scripted/m1
        environment = {**clean, **claude_environment(server.url)}                  # model m1
        ...
        server.wait_for(2)                       # main calls, as they arrive
        server.requests[0].prompt, .tools, .system, .body

A request that offers no tools is a side call (opencode asks for a session title that way): it gets a canned text and
uses up no step. A model without a script, and a script that is over, are errors that say so: 404 and 400.

What the real clients do to scripts: opencode 1.18 asks again by itself after 429 and 5xx, and at once after a stream
without a finish; claude 2.1 also retries, and sends a request that met an unknown 400 up to six times, each time with
fewer features. Give such a step `"repeat": true`. claude refuses a shell command that is only a `sleep`.

From a shell, `python -m dispatcher.demo.model_server --script FILE [--log FILE]`, where the file is JSON
{"models": {"m1": [...]}}, prints its URL on one line when it is ready and serves until SIGTERM or SIGINT.
"""

from __future__ import annotations

import argparse
import json
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dispatcher.demo import wire
from dispatcher.demo.script import Failure, Json, Moment, Script, Step

PROVIDER = "scripted"
"""The provider id under which opencode knows this server: models are `scripted/<id>`."""

SIDE_ANSWER = Step(text="Scripted title")

_WIRES: dict[str, wire.Wire] = {"/v1/chat/completions": wire.OpenAI(), "/v1/messages": wire.Anthropic()}
_COUNT_TOKENS = "/v1/messages/count_tokens"
_SESSION_HEADERS = ("x-claude-code-session-id", "x-session-id")
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


def opencode_config(url: str, models: Iterable[str]) -> Json:
    """The value of `OPENCODE_CONFIG_CONTENT`, as an object: one provider, `scripted`, with these models."""
    entry = {"limit": {"context": 200_000, "output": 8_000}, "cost": {"input": 1, "output": 2}}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": "scripted"},
        "models": {model: {"name": model, **entry} for model in models},
    }
    return {"provider": {PROVIDER: provider}}


def opencode_environment(url: str, models: Iterable[str]) -> dict[str, str]:
    """The variables that point opencode at this server and keep it from the network."""
    return {
        "OPENCODE_CONFIG_CONTENT": json.dumps(opencode_config(url, models)),
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
    }


def claude_environment(url: str) -> dict[str, str]:
    """The variables that point claude at this server and keep it from the network."""
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "scripted-key",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }


@dataclass(frozen=True)
class Request:
    """One request as it arrived. `wall` and `monotonic` are seconds; `protocol` is empty for a GET or HEAD."""

    number: int
    wall: float
    monotonic: float
    method: str
    path: str
    protocol: str
    model: str
    side: bool
    session: str
    headers: Mapping[str, str]
    body: Json

    @property
    def main(self) -> bool:
        """Whether it is a call of the worker's own loop, the kind that uses up a step."""
        return bool(self.protocol) and not self.side

    @property
    def prompt(self) -> str:
        return wire.last_prompt(self.body)

    @property
    def system(self) -> str:
        return wire.system_text(self.body)

    @property
    def tools(self) -> tuple[str, ...]:
        return wire.offered_tools(self.body)

    @property
    def text(self) -> str:
        """The whole body as JSON text, to look for something wherever it is."""
        return json.dumps(self.body, ensure_ascii=False)


def is_main(request: Request) -> bool:
    return request.main


class ModelServer:
    """Serves from `start` to `close`, or as a context manager. Every method may be called from any thread."""

    def __init__(
        self,
        scripts: Mapping[str, Iterable[Mapping[str, Any]]] | None = None,
        *,
        port: int = 0,
        log: Path | None = None,
    ) -> None:
        """`port` 0 takes a free one; `log` gets one JSON line per request, appended."""
        self.closing = threading.Event()
        self._changed = threading.Condition()
        self._scripts = {model: Script(steps) for model, steps in (scripts or {}).items()}
        self._requests: list[Request] = []
        self._log = log
        self._http = _HttpServer(port, self)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), name="model-server")

    @property
    def url(self) -> str:
        """`http://127.0.0.1:PORT`, without a path."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def requests(self) -> list[Request]:
        """All requests so far, in order of arrival."""
        with self._changed:
            return list(self._requests)

    def script(self, model: str, steps: Iterable[Mapping[str, Any]]) -> None:
        """Give a model its steps; an earlier script of it is forgotten. Raises `ScriptError`."""
        with self._changed:
            self._scripts[model] = Script(steps)

    def wait_for(self, n: int, predicate: Callable[[Request], bool] = is_main, timeout: float = 30.0) -> list[Request]:
        """Wait until `n` requests fit (main calls, unless told otherwise) and return those that do.

        `timeout` is in seconds; then it raises `TimeoutError`.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: sum(map(predicate, self._requests)) >= n, timeout):
                raise TimeoutError(f"{sum(map(predicate, self._requests))} of {n} requests within {timeout} s")
            return [request for request in self._requests if predicate(request)]

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop at once: connections that hang are cut, and no thread is left when this returns."""
        self.closing.set()
        if self._thread.is_alive():
            self._http.shutdown()
            self._thread.join()
        self._http.cut_connections()
        self._http.server_close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def receive(self, method: str, path: str, headers: Mapping[str, str], body: Json) -> Request:
        """Write a request down and wake those who wait for it."""
        speaks = _WIRES.get(path.partition("?")[0])
        with self._changed:
            request = Request(
                number=len(self._requests) + 1,
                wall=time.time(),
                monotonic=time.monotonic(),
                method=method,
                path=path,
                protocol=speaks.name if speaks else "",
                model=str(body.get("model", "")),
                side=not wire.offered_tools(body),
                session=next((headers[name] for name in _SESSION_HEADERS if name in headers), ""),
                headers=headers,
                body=body,
            )
            self._requests.append(request)
            if self._log:
                with self._log.open("a", encoding="utf-8") as lines:
                    lines.write(json.dumps(asdict(request)) + "\n")
            self._changed.notify_all()
        return request

    def answer(self, request: Request) -> Step:
        """The step that answers a request; it counts as used from here on."""
        if request.side:
            return SIDE_ANSWER
        with self._changed:
            script = self._scripts.get(request.model)
            if script is None:
                return Step(failure=Failure(404, f"no script for model {request.model}"))
            step = script.take(request.prompt, request.text)
        return step or Step(failure=Failure(400, f"the script of model {request.model} is over"))


class _HttpServer(ThreadingHTTPServer):
    """A threading server that knows its open connections, so that closing waits for nobody."""

    daemon_threads = False

    def __init__(self, port: int, owner: ModelServer) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.owner = owner
        self._open: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def close_request(self, request: Any) -> None:
        super().close_request(request)
        self._open.discard(request)

    def cut_connections(self) -> None:
        for connection in list(self._open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # it went away by itself

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A worker that was killed in the middle of an answer is what tests are made of, not an error."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Cut(Exception):
    """The step says that this answer goes no further."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _HttpServer

    def log_message(self, format: str, *args: Any) -> None:
        """The request log is the server's own; the standard one would go to stderr."""

    def do_GET(self) -> None:
        self._receive({})
        self._send_json(200, {})

    do_HEAD = do_GET

    def do_POST(self) -> None:
        try:
            body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
        except ValueError as error:
            return self._send_json(400, {"error": {"message": f"not JSON: {error}"}})
        request = self._receive(body)
        path = self.path.partition("?")[0]
        if path == _COUNT_TOKENS:
            return self._send_json(200, {"input_tokens": len(request.text) // 4})
        if path not in _WIRES:
            return self._send_json(404, {"error": {"message": f"no such path: {path}"}})
        try:
            self._play(self.server.owner.answer(request), _WIRES[path], request)
        except _Cut:
            self.close_connection = True

    def _receive(self, body: Json) -> Request:
        headers = {name.lower(): value for name, value in self.headers.items()}
        return self.server.owner.receive(self.command, self.path, headers, body)

    def _play(self, step: Step, speaks: wire.Wire, request: Request) -> None:
        self.server.owner.closing.wait(step.slow)
        self._stop_at("before", step)
        failure = step.failure
        streams = bool(request.body.get("stream"))
        if failure and not (failure.in_stream and streams):
            body = speaks.error(failure) if failure.body is None else failure.body
            return self._send_json(failure.status, body, step)
        answer = wire.prepare(speaks, step, request.body, request.number)
        if not streams:
            return self._send_json(200, speaks.whole(answer), step)
        frames = list(speaks.frames(answer))
        if failure:
            frames = [*frames[: len(frames) // 2], speaks.error_frame(failure)]
        self._send_stream(frames, step)

    def _send_json(self, status: int, body: str | Json, step: Step | None = None) -> None:
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        step = step or Step()
        self._send_head(status, {"content-type": "application/json", "content-length": str(len(data)), **step.headers})
        self._stop_at("headers", step)
        half = len(data) // 2
        self._write(data[:half])
        self._stop_at("middle", step)
        self._write(data[half:])

    def _send_stream(self, frames: list[bytes], step: Step) -> None:
        """Chunked, so that a client can tell a connection that was cut from an answer that ended."""
        head = {"content-type": "text/event-stream", "cache-control": "no-cache", "transfer-encoding": "chunked"}
        self._send_head(200, {**head, **step.headers})
        self._stop_at("headers", step)
        for place, frame in enumerate(frames, start=1):
            self._write(b"%x\r\n%s\r\n" % (len(frame), frame))
            if place == (len(frames) + 1) // 2:
                self._stop_at("middle", step)
        self._write(b"0\r\n\r\n")

    def _send_head(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _write(self, data: bytes) -> None:
        if self.command != "HEAD":
            self.wfile.write(data)

    def _stop_at(self, moment: Moment, step: Step) -> None:
        """Hang or drop if this is the moment for it. A hang lasts until the client or the server goes away."""
        if step.hang == moment:
            self.connection.recv(1)
            raise _Cut
        if step.drop == moment:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self.rfile.close()
            self.connection.close()
            raise _Cut


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="model_server", description="A scripted model server on loopback.")
    parser.add_argument("--script", type=Path, required=True, help='JSON file: {"models": {"<model id>": [steps]}}')
    parser.add_argument("--log", type=Path, help="JSON lines file that gets every request")
    parser.add_argument("--port", type=int, default=0, help="default: a free one")
    given = parser.parse_args(arguments)
    scripts = json.loads(given.script.read_text(encoding="utf-8"))["models"]
    ends = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    with ModelServer(scripts, port=given.port, log=given.log) as server:
        sys.stdout.write(server.url + "\n")
        sys.stdout.flush()
        signal.sigwait(ends)
    return 0


if __name__ == "__main__":
    sys.exit(main())
