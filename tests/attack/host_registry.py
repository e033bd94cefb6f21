"""A: a hostile registry. Whatever it answers, a pull ends with a sentence, makes no image, writes nothing but its own
part of a blob, and gives no login to anybody else."""
import base64
import json
import os
import pathlib
import re

import registry as reg
import registry_hostile as hostile
from rig import case, need


def image():
    """Another one each time: what is there is not fetched again."""
    return reg.Image([{"etc/motd": os.urandom(16)}, {"data/big": os.urandom(3 << 20)}], level=0)


def images_of(rig):
    return [i["name"] for i in json.loads(rig.cove("image", "ls", "--json").ok().out)]


def tree_of(rig, name):
    at = pathlib.Path(rig.cove.home, name)
    return sorted(p.name for p in at.iterdir()) if at.exists() else []


def pull(rig, host, *more):
    rig.cove.env.update(hostile.NOWHERE)
    return rig.cove("image", "pull", "--json", f"{host}/evil", "--stall", "2s", *more)


def with_login(rig, host, password):
    """The files that a caller's logins are read from, with the decoy as the password."""
    place = rig.base / "docker"
    place.mkdir(exist_ok=True)
    auth = base64.b64encode(f"user:{password}".encode()).decode()
    (place / "config.json").write_text(json.dumps({"auths": {host: {"auth": auth}}}))
    rig.cove.env["DOCKER_CONFIG"] = str(place)


def hostile_case(title, make):
    name = "A40_registry_" + re.sub(r"\W+", "_", title)

    @case(name, "A40", f"a registry that sends {title}: a sentence, no image, nothing kept")
    def run(rig):
        hook, kind = make()
        before, layers = images_of(rig), tree_of(rig, "layers")
        with reg.Scripted({("evil", "latest"): image()}, hook) as server:
            result = pull(rig, server.host)
        said = json.loads(result.out).get("error", {}) if result.out else {}
        need(result.rc in (125, 124) and said.get("kind") == kind, repr(result))
        need(images_of(rig) == before and tree_of(rig, "layers") == layers, "something of it became an image")
        if isinstance(hook, hostile.Endless):
            need(hook.sent < 64 << 20, f"{hook.sent >> 20} MiB were taken of what has no end")


for row in hostile.CASES.items():
    hostile_case(*row)


@case("A40_registry_login_for_another", "A40", "the login of one registry goes to no other, whatever they redirect to")
def login_for_another(rig):
    thief = []

    def steal(_server, handler):
        thief.append(dict(handler.headers))
        handler.answer(401, b"", {"WWW-Authenticate": 'Basic realm="give"'})
        return True

    with reg.Scripted({}, steal) as other:
        def lead_away(_server, handler):
            if handler.headers.get("Authorization"):
                handler.answer(307, b"", {"Location": other.url + handler.path})
            else:
                handler.answer(401, b"", {"WWW-Authenticate": 'Basic realm="x"'})
            return True

        with reg.Scripted({("evil", "latest"): image()}, lead_away) as server:
            with_login(rig, server.host, rig.secret)
            need(pull(rig, server.host).rc == 125, "it went well")
            need(any("Authorization" in r[2] for r in server.requests), "the login was not even tried")
        # And asked directly: there is no login for that name.
        need(pull(rig, other.host).rc == 125, "it went well")
    del rig.cove.env["DOCKER_CONFIG"]
    need(len(thief) >= 2, "the other server was not asked")
    need(not any("Authorization" in h for h in thief), "the login went to another server")


@case("A40_registry_token_for_another", "A40", "a token stays with its registry when a layer is somewhere else")
def token_for_another(rig):
    with reg.Scripted({}) as cdn:
        def elsewhere(server, handler):
            if "/blobs/" in handler.path and handler.headers.get("Authorization"):
                cdn.blobs[handler.path] = server.blobs[handler.path]
                handler.answer(307, b"", {"Location": cdn.url + handler.path})
                return True
            return False

        with reg.Scripted({("evil", "latest"): image()}, elsewhere, token=rig.secret) as server:
            result = pull(rig, server.host, "--name", "moved")
            need(result.rc == 0, repr(result))
        need(cdn.asked("/blobs/"), "nothing came from elsewhere")
        need(not any("Authorization" in r[2] for r in cdn.requests), "the token went along")
    rig.cove("image", "rm", "moved").ok()


@case("A40_registry_part_by_another_name", "A40", "a part is named by its digest alone: no path of a registry's")
def part_names(rig):
    """A manifest whose digests are paths."""
    victim = pathlib.Path(rig.cove.home, "victim")
    for name in ("sha256:../victim", "../../../victim", "sha256:" + "a" * 63 + "/", "sha256:.", ""):
        text = json.dumps({"schemaVersion": 2, "config": {"mediaType": reg.CONFIG, "digest": name, "size": 1},
                           "layers": []}).encode()
        with reg.Scripted({}, hostile.answer_with("/manifests/", 200, text,
                                                  {"Content-Type": reg.MANIFEST})) as server:
            result = pull(rig, server.host)
        need(result.rc == 125 and not victim.exists(), repr(result))
