"""Answers what a client of Redis asks: GET and MGET of nothing, a little late; OK to the rest."""

import socketserver
import sys
import threading
import time


class Client(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True

    def handle(self) -> None:
        while head := self.rfile.readline():
            words = []
            for _ in range(int(head[1:])):
                self.rfile.readline()
                words.append(self.rfile.readline().strip().upper())
            time.sleep(0.0005)
            if words[0] == b"GET":
                self.wfile.write(b"$-1\r\n")
            elif words[0] == b"MGET":
                self.wfile.write(b"*%d\r\n" % (len(words) - 1) + b"$-1\r\n" * (len(words) - 1))
            else:
                self.wfile.write(b"+OK\r\n")


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True


server = Server(("127.0.0.1", 0), Client)
print(server.server_address[1], flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
