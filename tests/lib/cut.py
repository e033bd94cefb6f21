"""Between a client and a server on a Unix socket: of the first request to each path no answer comes through."""
import socket
import threading


class Cut:
    def __init__(self, to, path):
        self.path, self.to, self.cuts = path, to, []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                here = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.carry, args=(here,), daemon=True).start()

    def carry(self, here):
        there = socket.socket(socket.AF_UNIX)
        there.connect(self.to)
        with here, there:
            while request := here.recv(1 << 20):
                there.sendall(request)
                answer = there.recv(1 << 20)
                what = request.split()[1]
                if what not in self.cuts:
                    self.cuts.append(what)
                    return
                here.sendall(answer)

    def end(self):
        self.listener.close()
