"""The quickstart's upstream: a weather service that answers nobody without its key."""
import http.server
import sys

with open(sys.argv[3]) as f:
    KEY = f.read().strip()


class Upstream(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        known = self.headers.get("X-Api-Key") == KEY
        body = b"fine, 21 degrees" if known else b"no key"
        self.send_response(200 if known else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Upstream)
print("listening", flush=True)
server.serve_forever()
