#!/usr/bin/python3
"""The published @anthropic-ai/claude-code in a box, with its key outside.

The model's provider is a server on this machine's loopback that speaks its format: server-sent events of /v1/messages.
It asks for one command and then says what came back, so a whole turn of an agent runs. The key is a secret of Cove's
that the door adds; the box has a word in its place that is no key, and the server refuses any other than the real one.
"""
import http.server
import json
import os
import pathlib
import secrets
import sys
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "lib"), str(HERE.parent / "lib")]
from boxes import IMAGE, NPM, SKIPPED, cove, last_line, policy, shell  # noqa: E402
from door_rig import Authority, free_port  # noqa: E402
from door_servers import LOOPBACK, Dns  # noqa: E402

PACKAGE, HOST, NO_KEY = "@anthropic-ai/claude-code", "api.anthropic.com", "sk-ant-api03-not-in-this-box"
COMMAND = "echo $((6*7)) > ~/answer; cat ~/answer"


def events(content, stop):
    """The events of one answer: its blocks, each started, told and ended."""
    usage = {"input_tokens": 10, "output_tokens": 5}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": [],
               "stop_reason": None, "stop_sequence": None, "usage": usage}
    yield {"type": "message_start", "message": message}
    for i, block in enumerate(content):
        if block["type"] == "text":
            empty, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            empty, delta = {**block, "input": {}}, {"type": "input_json_delta",
                                                    "partial_json": json.dumps(block["input"])}
        yield {"type": "content_block_start", "index": i, "content_block": empty}
        yield {"type": "content_block_delta", "index": i, "delta": delta}
        yield {"type": "content_block_stop", "index": i}
    yield {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage}
    yield {"type": "message_stop"}


def answer(request):
    """(content, stop reason): the command first, then what it printed, for whoever has tools."""
    results = [block for message in request["messages"] if isinstance(message["content"], list)
               for block in message["content"] if block["type"] == "tool_result"]
    names = [tool.get("name") for tool in request.get("tools", [])]
    if "Bash" in names and not results:
        return [{"type": "tool_use", "id": "toolu_1", "name": "Bash",
                 "input": {"command": COMMAND, "description": "count"}}], "tool_use"
    said = results[-1]["content"] if results else "ok"
    if isinstance(said, list):
        said = "".join(block.get("text", "") for block in said)
    return [{"type": "text", "text": f"it printed {said.strip()}"}], "end_turn"


class Provider(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    key, keys = "", []

    def log_message(self, *_):
        pass

    def reply(self, status, kind, body):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.reply(404, "application/json", b'{"type":"error","error":{"type":"not_found_error","message":"no"}}')

    do_HEAD = do_GET

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        key = self.headers.get("x-api-key")
        self.keys.append(key)
        if key != self.key or "authorization" in self.headers:
            self.reply(401, "application/json",
                       b'{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}')
        elif self.path.startswith("/v1/messages/count_tokens"):
            self.reply(200, "application/json", b'{"input_tokens":10}')
        elif self.path.startswith("/v1/messages"):
            self.message(json.loads(body))
        else:
            self.do_GET()

    def message(self, request):
        content, stop = answer(request)
        told = list(events(content, stop))
        if request.get("stream"):
            text = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in told)
            self.reply(200, "text/event-stream", text.encode())
        else:
            whole = {**told[0]["message"], "content": content, "stop_reason": stop}
            self.reply(200, "application/json", json.dumps(whole).encode())


def try_agent(box, dns, port):
    """Why it does not work, or None."""
    rules = [{"name": "model", "allow": HOST, "ports": [port], "private": True, "methods": ["POST", "GET", "HEAD"],
              "inject": {"headers": {"x-api-key": "{{ secret.MODEL_KEY }}"}}}]
    pathlib.Path("model.yaml").write_text(json.dumps({"version": 1, "resolver": f"{LOOPBACK}:{dns.port}",
                                                      "rules": rules}))
    applied = cove("policy", "apply", box, "model.yaml")
    if applied.returncode != 0:
        return last_line(applied.stdout)
    ran = shell(box, "cd ~/n && npx claude -p 'Run the command that counts.' --allowedTools Bash",
                "-e", f"ANTHROPIC_BASE_URL=https://{HOST}:{port}", "-e", f"ANTHROPIC_API_KEY={NO_KEY}",
                "-e", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1")
    if ran.returncode != 0 or ran.stdout.strip() != "it printed 42":
        return "it said: " + " ".join(ran.stdout.split())[:300]
    if not Provider.keys or set(Provider.keys) != {Provider.key}:
        return "a request came without the key"
    # As root, who can read all there is: files, and every process's variables.
    seen = shell(box, f"cat /home/*/answer; grep -rlsF {Provider.key} /home /root /tmp /proc/[0-9]*/environ || "
                      "echo nowhere", "--user", "root")
    return None if seen.stdout.split() == ["42", "nowhere"] else f"the key is in the box: {last_line(seen.stdout)}"


def main():
    if IMAGE == "host":
        print("packages are installed in boxes of the base image only, and there is none")
        return SKIPPED
    port, dns, ca = free_port(), Dns(), Authority(pathlib.Path.cwd())
    dns.table[HOST] = [LOOPBACK]
    bundle = pathlib.Path("bundle.pem").absolute()
    host = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
    bundle.write_bytes((host.read_bytes() if host.exists() else b"") + ca.pem.read_bytes())
    Provider.key = f"sk-ant-api03-{secrets.token_hex(16)}"
    server = http.server.ThreadingHTTPServer((LOOPBACK, port), Provider)
    server.socket = ca.context(HOST).wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    set_ = cove("secret", "set", "MODEL_KEY", input=Provider.key)
    # Whom the door trusts upstream is read when the box starts.
    made = cove("create", "--image", IMAGE, "--net", policy(), "--mem", "4G",
                env={**os.environ, "SSL_CERT_FILE": str(bundle)})
    if set_.returncode != 0 or made.returncode != 0:
        print(last_line(set_.stdout + made.stdout))
        return 1
    box = made.stdout.split()[-1]
    try:
        got = shell(box, NPM + PACKAGE + " && npx claude --version")
        if got.returncode != 0:
            print(f"{PACKAGE} cannot be installed: {last_line(got.stdout)}")
            return SKIPPED
        why = try_agent(box, dns, port)
    finally:
        cove("rm", "-f", box)
        cove("secret", "rm", "MODEL_KEY")
        server.shutdown()
    version = got.stdout.split()[-3]
    print(why or f"{PACKAGE} {version}: a turn with a command, {len(Provider.keys)} requests with the key")
    return 1 if why else 0


if __name__ == "__main__":
    sys.exit(main())
