"""A warm pool, as whoever calls: with ids and groups of its own or without, and on plain storage."""
import glob
import os

from conftest import wait_until
from server import Server


def test_a_box_is_taken(new_home):
    home = new_home()
    server = Server(home, tcp=False)
    try:
        server.ask("PUT", "/v1/pools", {"image": "host", "size": 1}).ok(204)
        wait_until(lambda: server.ask("GET", "/v1/pools").ok().json["pools"][0]["ready"] == 1, "the pool")
        ahead, = glob.glob(f"{home.home}/boxes/.new-*")
        held = os.open(ahead, os.O_PATH)
        box = server.ask("POST", "/v1/boxes", {"image": "host", "name": "taken", "env": {"A": "b"}, "cwd": "/tmp",
                                               "command": {"line": "hostname; pwd; echo $A > f; cat f"}}).ok(201).json
        assert box["result"]["stdout"] == "taken\n/tmp\nb\n"
        assert os.fstat(held).st_ino == os.stat(f"{home.home}/boxes/taken").st_ino
        os.close(held)
        server.ask("DELETE", "/v1/pools?image=host").ok(204)
        wait_until(lambda: os.listdir(f"{home.home}/boxes") == ["taken"], "none ahead")
        home("stop", "taken").ok()
        home("start", "taken").ok()
        assert home("exec", "taken", "--", "hostname").ok().out == b"taken\n"
        home("rm", "-f", "taken").ok()
        assert os.listdir(f"{home.home}/boxes") == []
    finally:
        server.end()
