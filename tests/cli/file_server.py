"""file_server.py FOLDER PORT_FILE LOG: serves the files of a folder on a free port, which it writes to PORT_FILE.

The first part of a path chooses how: /plain/F as it should be, byte ranges included; /broken/F breaks off after 2,500 bytes
of every answer; /whole/F knows no ranges; /page/F answers everything with an HTML page.  LOG gets a line for each
request: path, then its range or "-".  Ends with the process that started it, or after ten minutes.
"""

import http.server
import os
import re
import sys
import threading
import time

folder, port_file, log = sys.argv[1:]


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with open(log, "a", encoding="ascii") as out:
            out.write("%s %s\n" % (self.path, self.headers.get("Range", "-")))
        how, _, path = self.path[1:].partition("/")
        if how == "page":
            self.answer(200, b"<html>Please log in.</html>", {})
            return
        try:
            with open(os.path.join(folder, os.path.basename(path)), "rb") as file:
                data = file.read()
        except OSError:
            self.answer(404, b"no such file\n", {})
            return
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if how == "whole" or not asked:
            self.answer(200, data, {}, 2500 if how == "broken" else None)
            return
        first = int(asked[1])
        if first >= len(data):
            self.answer(416, b"", {"Content-Range": "bytes */%d" % len(data)})
            return
        place = {"Content-Range": "bytes %d-%d/%d" % (first, len(data) - 1, len(data))}
        self.answer(206, data[first:], place, 2500 if how == "broken" else None)

    def answer(self, status, body, headers, most=None):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:most])
        self.close_connection = True

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
with open(port_file + ".new", "w", encoding="ascii") as out:
    out.write(str(server.server_address[1]))
os.rename(port_file + ".new", port_file)
parent, end = os.getppid(), time.time() + 600
while os.getppid() == parent and time.time() < end:
    time.sleep(0.2)
