"""Registries for tests, all on loopback: images made here and pushed over the real protocol, Debian's docker-registry
(plain, with TLS, with a login, with a token server), and a server that a test scripts, honest or not."""
import base64
import contextlib
import gzip
import hashlib
import http.server
import io
import json
import os
import pathlib
import shutil
import socket
import socketserver
import ssl
import subprocess
import tarfile
import threading
import time
import urllib.parse
import warnings

import requests

from programs import NotApplicable, wait_until

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
DOCKER = "application/vnd.docker.distribution.manifest.v2+json"


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def descriptor(media, data, **more):
    return {"mediaType": media, "digest": digest(data), "size": len(data), **more}


def tar_of(files):
    """An uncompressed tar of {path: bytes, or (mode, bytes)}, the same for the same files."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        made = set()
        for path, content in files.items():
            for parent in reversed(pathlib.PurePosixPath(path).parents):
                if str(parent) not in (".", *made):
                    made.add(str(parent))
                    entry = tarfile.TarInfo(str(parent))
                    entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                    tar.addfile(entry)
            mode, content = content if isinstance(content, tuple) else (0o644, content)
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    return out.getvalue()


class Image:
    """Layers, a configuration and a manifest as bytes, by digest in blobs."""

    def __init__(self, layers, arch="amd64", variant=None, settings=None, level=6):
        self.tars = [tar_of(files) for files in layers]
        self.layers = [gzip.compress(t, level, mtime=0) for t in self.tars]
        platform = {"architecture": arch, "os": "linux", **({"variant": variant} if variant else {})}
        self.platform = platform
        self.config = json.dumps({**platform, "config": settings or {},
                                  "rootfs": {"type": "layers", "diff_ids": [digest(t) for t in self.tars]}}).encode()
        self.manifest = json.dumps({
            "schemaVersion": 2, "mediaType": MANIFEST, "config": descriptor(CONFIG, self.config),
            "layers": [descriptor(LAYER, b) for b in self.layers]}).encode()
        self.digest = digest(self.manifest)

    @property
    def blobs(self):
        return {digest(b): b for b in [self.config, *self.layers]}


def index_of(images):
    return json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [
        descriptor(MANIFEST, i.manifest, platform=i.platform) for i in images]}).encode()


def push(url, repo, tag, image, images=(), verify=True, auth=None, headers=None):
    """Pushes an image, or an index of images, as any client does."""
    with requests.Session() as s:
        s.verify, s.auth, s.trust_env = verify, auth, False
        s.headers.update(headers or {})
        for one in images or [image]:
            for name, data in one.blobs.items():
                at = s.post(f"{url}/v2/{repo}/blobs/uploads/")
                assert at.status_code == 202, at.text
                to = urllib.parse.urljoin(url, at.headers["Location"])
                done = s.put(to + ("&" if "?" in to else "?") + "digest=" + name, data=data)
                assert done.status_code == 201, done.text
            put_manifest(s, url, repo, one.digest if images else tag, one.manifest, MANIFEST)
        if images:
            put_manifest(s, url, repo, tag, index_of(images), INDEX)


def put_manifest(session, url, repo, name, data, media):
    done = session.put(f"{url}/v2/{repo}/manifests/{name}", data=data, headers={"Content-Type": media})
    assert done.status_code == 201, done.text


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def make_certificate(directory, names=("localhost",), addresses=("127.0.0.1",)):
    """An authority and a certificate of it: paths of ca, cert and key."""
    d = pathlib.Path(directory)
    alt = ",".join([*(f"DNS:{n}" for n in names), *(f"IP:{a}" for a in addresses)])
    run = lambda *a: subprocess.run(["openssl", *a], check=True, capture_output=True, cwd=d)  # noqa: E731
    run("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj",
        "/CN=test authority")
    run("req", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "req.pem", "-subj", "/CN=localhost")
    (d / "ext").write_text(f"subjectAltName={alt}\n")
    run("x509", "-req", "-in", "req.pem", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out", "cert.pem",
        "-days", "2", "-extfile", "ext")
    return d / "ca.pem", d / "cert.pem", d / "key.pem"


def b64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Quiet(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """Answers by handle(handler, method); every request is kept as (method, path, headers)."""
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, handle, tls=None):
        self.requests = []
        outer = self

        class Handler(Quiet):
            def do(self, method):
                outer.requests.append((method, self.path, dict(self.headers)))
                try:
                    handle(self, method)
                except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
                    self.close_connection = True

            def do_GET(self):
                self.do("GET")

            def do_POST(self):
                self.do("POST")

        super().__init__(("127.0.0.1", 0), Handler)
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls[1], tls[2])
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.host = f"127.0.0.1:{self.server_address[1]}"
        self.url = f"{'https' if tls else 'http'}://{self.host}"
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def handle_error(self, request, client_address):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    def asked(self, what):
        return [r for r in self.requests if what in r[1]]


class TokenServer(Server):
    """Gives out tokens as docker-registry takes them: JWT, RS256, with its certificate in x5c. users: name -> password;
    None: anyone may read. A refresh token is the user's password."""

    def __init__(self, tls, users=None, lifetime=300):
        self.tls_files, self.users, self.lifetime = tls, users, lifetime
        self.given = []
        super().__init__(TokenServer.token, tls)

    def token_for(self, query):
        access = []
        for scope in query.get("scope", []):
            kind, name, actions = scope.split(":")
            access.append({"type": kind, "name": name, "actions": actions.split(",")})
        der = ssl.PEM_cert_to_DER_cert(pathlib.Path(self.tls_files[1]).read_text())
        now = int(time.time())
        head = {"typ": "JWT", "alg": "RS256", "x5c": [base64.b64encode(der).decode()]}
        claims = {"iss": "test", "sub": "", "aud": query["service"][0], "exp": now + self.lifetime, "nbf": now - 10,
                  "iat": now, "jti": os.urandom(8).hex(), "access": access}
        text = ".".join(b64url(json.dumps(part).encode()) for part in (head, claims))
        signed = subprocess.run(["openssl", "dgst", "-sha256", "-sign", str(self.tls_files[2])], input=text.encode(),
                                check=True, capture_output=True).stdout
        return f"{text}.{b64url(signed)}"

    @staticmethod
    def token(handler, method):
        self = handler.server
        parts = urllib.parse.urlsplit(handler.path)
        query = urllib.parse.parse_qs(parts.query)
        allowed = self.users is None
        login = handler.headers.get("Authorization", "")
        if method == "POST":
            form = handler.rfile.read(int(handler.headers["Content-Length"])).decode()
            query = urllib.parse.parse_qs(form)
            allowed = query["refresh_token"][0] in (self.users or {}).values()
        elif login.startswith("Basic ") and self.users:
            user, _, password = base64.b64decode(login[6:]).decode().partition(":")
            allowed = self.users.get(user) == password
        if not allowed:
            return handler.answer(401, b'{"errors":[{"message":"wrong login"}]}')
        token = self.token_for(query)
        self.given.append(token)
        return handler.answer(200, json.dumps({"access_token" if method == "POST" else "token": token}).encode())


@contextlib.contextmanager
def docker_registry(directory, tls=None, token=None, password=None):
    """Debian's docker-registry on a loopback port; yields its url. tls and token's files as make_certificate gives
    them; token is a TokenServer; password (user, password) asks for Basic."""
    program = shutil.which("docker-registry")
    if not program:
        raise NotApplicable("docker-registry is not installed")
    d = pathlib.Path(directory)
    (d / "data").mkdir(exist_ok=True)
    port = free_port()
    auth = ""
    if token:
        auth = f"auth: {{token: {{realm: '{token.url}/token', service: test-registry, issuer: test, " \
               f"rootcertbundle: '{token.tls_files[0]}'}}}}\n"
    if password:
        with warnings.catch_warnings():  # it takes bcrypt only, which nothing else here makes
            warnings.simplefilter("ignore")
            import crypt
        hashed = crypt.crypt(password[1], crypt.mksalt(crypt.METHOD_BLOWFISH, rounds=16))
        (d / "htpasswd").write_text(f"{password[0]}:{hashed}\n")
        auth = f"auth: {{htpasswd: {{realm: test, path: '{d}/htpasswd'}}}}\n"
    files = f"  tls: {{certificate: '{tls[1]}', key: '{tls[2]}'}}\n" if tls else ""
    (d / "registry.yml").write_text(
        f"version: 0.1\nlog: {{level: error}}\nstorage:\n  filesystem: {{rootdirectory: '{d}/data'}}\n"
        f"http:\n  addr: 127.0.0.1:{port}\n  secret: test\n{files}{auth}")
    log = open(d / "registry.log", "wb")
    process = subprocess.Popen([program, "serve", str(d / "registry.yml")], stdout=log, stderr=log)
    try:
        def listens():
            assert process.poll() is None, (d / "registry.log").read_text()
            with socket.socket() as s:
                return s.connect_ex(("127.0.0.1", port)) == 0
        wait_until(listens, "docker-registry")
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
        log.close()


class Scripted(Server):
    """A registry of the test's own. images: {(repo, tag): Image}; a hook may take a request over: it returns True when
    it has answered. With token every request needs it."""

    def __init__(self, images, hook=None, tls=None, token=None, realm=None):
        self.hook, self.token, self.realm = hook, token, realm
        self.manifests, self.blobs = {}, {}
        for (repo, tag), image in images.items():
            self.manifests[f"/v2/{repo}/manifests/{tag}"] = image.manifest
            self.manifests[f"/v2/{repo}/manifests/{image.digest}"] = image.manifest
            for name, data in image.blobs.items():
                self.blobs[f"/v2/{repo}/blobs/{name}"] = data
        super().__init__(Scripted.serve, tls)

    def serve_range(self, handler, data):
        asked = handler.headers.get("Range", "")
        if not asked.startswith("bytes=") or not asked.endswith("-"):
            return handler.answer(200, data)
        first = int(asked[6:-1])
        return handler.answer(206, data[first:], {"Content-Range": f"bytes {first}-{len(data) - 1}/{len(data)}"})

    @staticmethod
    def serve(handler, method):
        self = handler.server
        if self.hook and self.hook(self, handler):
            return None
        if self.token and handler.headers.get("Authorization") != f"Bearer {self.token}":
            realm = self.realm or self.url + "/token"
            if handler.path.startswith("/token"):
                return handler.answer(200, json.dumps({"token": self.token}).encode())
            return handler.answer(401, b"", {"WWW-Authenticate": f'Bearer realm="{realm}",service="s"'})
        if handler.path in self.manifests:
            return handler.answer(200, self.manifests[handler.path], {"Content-Type": MANIFEST})
        if handler.path in self.blobs:
            return self.serve_range(handler, self.blobs[handler.path])
        return handler.answer(404, b'{"errors":[{"code":"UNKNOWN","message":"unknown to registry"}]}')
