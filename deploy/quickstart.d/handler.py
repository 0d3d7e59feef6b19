"""The quickstart's handler: what a model might write from one sentence, and what it might do wrong."""
import http.server
import os
import socket
import time


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, text):
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/fail":
            self.answer(500, "no")
        elif self.path == "/big":
            self.answer(200, "x" * (1024 * 1024 + 1))
        elif self.path == "/fork":
            while True:
                os.fork()
        elif self.path == "/memory":
            hog = []
            while True:
                hog.append(b"x" * (16 << 20))
        elif self.path.startswith("/reach/"):
            host, port = self.path[len("/reach/"):].rsplit(":", 1)
            try:
                socket.create_connection((host, int(port)), 1).close()
                self.answer(200, "reached")
            except OSError as error:
                self.answer(200, "failed: %s" % error)
        else:
            self.answer(200, "hello, it is %s" % time.strftime("%H:%M:%S"))

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.answer(200, "taken")

    def log_message(self, *args):
        pass


http.server.ThreadingHTTPServer(("0.0.0.0", 8080), Handler).serve_forever()
