"""A ttrpc client that can say anything: the calls of a shim's task service with fields that no tool would send."""
import os
import socket
import struct


def _varint(n):
    out = b""
    n &= (1 << 64) - 1
    while n > 0x7f:
        out, n = out + bytes([n & 0x7f | 0x80]), n >> 7
    return out + bytes([n])


def field(number, value):
    """One protobuf field: int, str, bytes, or a list of any of them (repeated)."""
    if isinstance(value, list):
        return b"".join(field(number, v) for v in value)
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def message(**fields):
    """message(_1="id", _3=9): fields by number."""
    return b"".join(field(int(k[1:]), v) for k, v in fields.items())


def parse(data):
    """{number: last value} of a message with varints and byte strings."""
    out, at = {}, 0

    def number():
        nonlocal at
        n, shift = 0, 0
        while True:
            byte = data[at]
            at += 1
            n |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return n
    while at < len(data):
        key = number()
        if key & 7 == 0:
            out[key >> 3] = number()
        else:
            size = number()
            out[key >> 3] = data[at:at + size]
            at += size
    return out


class Shim:
    """A connection to the shim of a bundle."""

    def __init__(self, bundle, timeout=20):
        with open(os.path.join(bundle, "address")) as f:
            path = f.read().strip()[len("unix://"):]
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(timeout)
        self.socket.connect(path)
        self.stream = 1

    def send(self, method, payload=b"", service="containerd.task.v2.Task"):
        body = message(_1=service, _2=method, _3=payload)
        stream, self.stream = self.stream, self.stream + 2
        self.socket.sendall(struct.pack(">IIBB", len(body), stream, 1, 0) + body)
        return stream

    def _read(self, n):
        data = b""
        while len(data) < n:
            more = self.socket.recv(n - len(data))
            if not more:
                raise EOFError("the shim closed the connection")
            data += more
        return data

    def receive(self):
        """(stream, code, text, payload) of the next answer."""
        size, stream, _, _ = struct.unpack(">IIBB", self._read(10))
        answer = parse(self._read(size))
        status = parse(answer.get(1, b""))
        return stream, status.get(1, 0), status.get(2, b"").decode(errors="replace"), answer.get(2, b"")

    def call(self, method, **fields):
        """(code, text, fields of the answer)"""
        sent = self.send(method, message(**fields))
        while True:
            stream, code, text, payload = self.receive()
            if stream == sent:
                return code, text, parse(payload)

    def close(self):
        self.socket.close()
