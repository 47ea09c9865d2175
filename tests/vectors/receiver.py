"""A typical webhook receiver with the standardwebhooks package: over https, and nothing that the package
does not take is answered 2xx. It hands what it takes on to a second receiver, whose status goes back.

    python3 receiver.py SECRET_FILE CERTIFICATE KEY NEXT

It prints its URL, and `id kind status` for each delivery, or `refused` and why.
"""

import http.client
import http.server
import pathlib
import ssl
import sys
import urllib.parse

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

SECRET_FILE, CERTIFICATE, KEY, NEXT = sys.argv[1:]
WEBHOOK = Webhook(pathlib.Path(SECRET_FILE).read_text().strip())
ADDRESS = "127.0.0.2"


class Receiver(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = dict(self.headers.items())
        try:
            event = WEBHOOK.verify(body, headers)
        except (WebhookVerificationError, ValueError) as why:
            say(f"refused {why}")
            status = 401
        else:
            status = hand_on(body, headers)
            say(f"{self.headers['webhook-id']} {event['event']} {status}")
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def say(line):
    # One write for the line and its end: print writes them apart, and deliveries come at the same time.
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def hand_on(body, headers):
    to = urllib.parse.urlsplit(NEXT)
    connection = http.client.HTTPConnection(to.netloc, timeout=9)
    kept = {name: value for name, value in headers.items() if name.lower().startswith(("webhook-", "x-", "content-type"))}
    connection.request("POST", to.path, body, kept)
    status = connection.getresponse().status
    connection.close()
    return status


server = http.server.ThreadingHTTPServer((ADDRESS, 0), Receiver)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(CERTIFICATE, KEY)
server.socket = context.wrap_socket(server.socket, server_side=True)
say(f"listening on https://{ADDRESS}:{server.server_port}")
server.serve_forever()
