import os
from http.server import BaseHTTPRequestHandler, HTTPServer

from raftsched import webhooks

SECRETS = os.environ["WEBHOOK_SECRETS"].split()


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            event = webhooks.verify(SECRETS, self.headers, body)
        except webhooks.VerificationError as error:
            self.send_error(401, str(error))
        else:
            print(event["id"], event["type"], event["subject"], flush=True)
            self.send_response(204)
            self.end_headers()


if __name__ == "__main__":
    HTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8080"))), Receiver).serve_forever()
