"""A small, warm process that forks a supervisor for each attempt: a fresh interpreter would cost most of a short one.

It belongs to one run, has one thread, and knows of an attempt no more than its folder. When the run is gone (the end of
its connection) it ends; the supervisors that it forked go on, and whoever wants to know of one has a pidfd or the lock
of the attempt.

    at first   READY
    request    its length in LENGTH bytes, and with these two descriptors: the attempt's lock, the file for own errors;
               then JSON: `folder`, `environment`
    answer     STARTED, and with it the pidfd of the supervisor; or REFUSED: no process could be made
"""

from __future__ import annotations

import _socket
import gc
import os
import sys
from importlib import import_module

from dispatcher.supervisor import kernel, plain_json, supervise

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Sequence
else:
    import _signal

LENGTH = 8
READY, STARTED, REFUSED = b"!", b"+", b"-"
INT = 4  # bytes of a descriptor in a message


def send(connection: _socket.socket, data: bytes, descriptors: Sequence[int] = ()) -> None:
    """All of it; the descriptors go with its first byte."""
    packed = b"".join(one.to_bytes(INT, sys.byteorder) for one in descriptors)
    rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, packed)] if descriptors else []
    done = connection.sendmsg([data], rights, _socket.MSG_NOSIGNAL)
    while done < len(data):
        done += connection.send(data[done:], _socket.MSG_NOSIGNAL)


def receive(connection: _socket.socket, size: int) -> tuple[bytes, list[int]]:
    """So many bytes, less only at the end of the connection, and the descriptors that came with them."""
    data, descriptors = b"", []
    while len(data) < size:
        part, control, _, _ = connection.recvmsg(
            size - len(data), _socket.CMSG_SPACE(2 * INT), _socket.MSG_CMSG_CLOEXEC
        )
        for level, kind, packed in control:
            if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
                found = [packed[at : at + INT] for at in range(0, len(packed) - INT + 1, INT)]
                descriptors += [int.from_bytes(one, sys.byteorder) for one in found]
        if not part:
            break
        data += part
    return data, descriptors


def serve(descriptor: int) -> None:
    """Fork until the connection ends."""
    connection = _socket.socket(fileno=descriptor)
    for number in (_signal.SIGINT, _signal.SIGHUP):  # of a terminal; they are meant for the run
        _signal.signal(number, _signal.SIG_IGN)
    _signal.signal(_signal.SIGCHLD, _reap)
    kernel.set_name("fork server")  # also brings what every supervisor needs for its own name
    send(connection, READY)
    cold = True
    while True:
        head, descriptors = receive(connection, LENGTH)
        size = int.from_bytes(head, "big")
        request = receive(connection, size)[0]
        if len(head) < LENGTH or len(request) < size:
            return
        _signal.pthread_sigmask(_signal.SIG_BLOCK, (_signal.SIGCHLD,))  # a pidfd needs its process, if only a dead one
        try:
            pid = os.fork()
        except OSError:
            send(connection, REFUSED)
        else:
            if pid == 0:
                connection.close()
                _become(request, *descriptors)
            watched = os.pidfd_open(pid)
            send(connection, STARTED, (watched,))
            os.close(watched)
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, (_signal.SIGCHLD,))
        for one in descriptors:
            os.close(one)
        if cold:
            cold = False
            _warm()


def _warm() -> None:
    """After the first fork, when nobody waits: what supervisors load later, loaded once and shared. So they are also of
    one version, when the program is upgraded while its run goes on."""
    from dispatcher.supervisor.lean import put_off_inspect

    put_off_inspect()
    for name in ("gate", "held"):
        import_module(f"dispatcher.supervisor.{name}")
    from dispatcher import harness
    from dispatcher.supervisor.listener import Listener

    for name in harness.names():
        Listener(supervise.Spec({"harness": name, "model": "", "billing": "free", "zone": "UTC"}), [])
    gc.freeze()  # no collection of a child touches, and thereby copies, these pages


def _reap(_number: int, _frame: object) -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def _become(request: bytes, lock: int, errors: int) -> None:
    """In the child, which is the supervisor from here on; never returns."""
    try:
        os.setsid()
        os.dup2(errors, 2)
        os.close(errors)
        for number in (_signal.SIGINT, _signal.SIGHUP, _signal.SIGCHLD):
            _signal.signal(number, _signal.SIG_DFL)
        _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
        asked = plain_json.loads(request.decode())
        os.environ.clear()
        os.environ.update(asked["environment"])
        kernel.set_name("attempt " + "/".join(asked["folder"].split("/")[-2:]))
        os._exit(supervise.main(asked["folder"], lock, ()))
    except Exception:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(1)
