"""The quickstart's handler: what a model might write from one sentence, and what it might do wrong."""
import http.server
import os
import socket
import threading
import time
import urllib.error
import urllib.request

RUNS = 0
TOKENS = []
LOCK = threading.Lock()


def ask(path, token=None, host="data"):
    """An upstream's answer through the data proxy, which asks for the token of the request that runs."""
    request = urllib.request.Request("http://%s%s" % (host, path))
    if token:
        request.add_header("Utter-Data-Token", token)
    try:
        with urllib.request.urlopen(request, timeout=1) as answer:
            return "%d %s" % (answer.status, answer.read().decode())
    except urllib.error.HTTPError as error:
        return "%d %s" % (error.code, error.read().decode().strip())
    except OSError as error:
        return "failed: %s" % error


def reach(target):
    host, port = target.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), 1).close()
        return "reached"
    except OSError as error:
        return "failed: %s" % error


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, text):
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def weather(self):
        token = self.headers.get("Utter-Data-Token")
        TOKENS.append(token)
        return ask("/weather/today", token)

    def weather_tricks(self):
        token = self.headers.get("Utter-Data-Token")
        tries = {"after": ask("/weather/today", TOKENS[-1]), "other": ask("/news/today", token),
                 "path": ask("/weather/admin", token), "none": ask("/weather/today"),
                 "around": ask("/v1/today", token, "198.19.128.1:9000")}
        return "\n".join("%s: %s" % each for each in tries.items())

    def do_GET(self):
        global RUNS
        with LOCK:
            RUNS += 1
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
        elif self.path == "/runs":
            self.answer(200, str(RUNS))
        elif self.path == "/weather":
            self.answer(200, self.weather())
        elif self.path == "/weather-tricks":
            self.answer(200, self.weather_tricks())
        elif self.path.startswith("/reach/"):
            self.answer(200, reach(self.path[len("/reach/"):]))
        else:
            self.answer(200, "hello, it is %s" % time.strftime("%H:%M:%S"))

    def do_POST(self):
        global RUNS
        with LOCK:
            RUNS += 1
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.answer(200, "taken")

    def log_message(self, *args):
        pass


http.server.ThreadingHTTPServer(("0.0.0.0", 8080), Handler).serve_forever()
