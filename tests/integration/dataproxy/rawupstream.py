"""An upstream of bytes: what it answers is told, whatever HTTP would say to it; and a listener that nobody may reach."""
import socket
import threading
import time


class Raw:
    """Answers every request with what `answer(head)` yields: bytes to send, or a number of seconds to wait. Remembers heads."""

    def __init__(self, answer=None, close=True):
        self.answer, self.close, self.seen = answer or (lambda head: []), close, []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                peer, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(peer,), daemon=True).start()

    def serve(self, peer):
        rest = b""
        with peer:
            try:
                while True:
                    while b"\r\n\r\n" not in rest:
                        piece = peer.recv(65536)
                        if not piece:
                            return
                        rest += piece
                    head, rest = rest.split(b"\r\n\r\n", 1)
                    self.seen.append(head)
                    for piece in self.answer(head):
                        if isinstance(piece, bytes):
                            peer.sendall(piece)
                        else:
                            time.sleep(piece)
                    if self.close:
                        return
            except OSError:
                self.seen.append(b"broken")

    def done(self):
        self.socket.close()


def plain(body, status=b"200 OK", head=b""):
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n%s\r\n%s" % (status, len(body), head, body)
