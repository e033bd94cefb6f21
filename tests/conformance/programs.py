#!/usr/bin/python3
"""Programs that people install in boxes, each as its users do: a table of rows, one box each, through the door.

    tests/conformance/programs.py [ROW]...

A row fetches what it needs (`get`) and then does something small with it (`use`). What a registry does not give is a
skipped row, with the line that says why; what was fetched and does not work is a failure. The policy is balanced; where
this host's registries are mirrors at private addresses, its rules say `private: true` besides.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))
from boxes import IMAGE, NPM, SKIPPED, cove, last_line, policy, shell  # noqa: E402

APT = "sudo apt-get -qq update && sudo apt-get -qq install -y "
PIP = "python3 -m venv ~/v && ~/v/bin/pip -q install "

# name, get, use: lines of a shell.
ROWS = [
    ("venv, pip", PIP + "requests", "~/v/bin/python -c 'import requests; print(requests.__version__)'"),
    ("uv", PIP + "uv", "~/v/bin/uv venv -q ~/u && ~/v/bin/uv pip install -q --python ~/u/bin/python six && "
                       "~/u/bin/python -c 'import six'"),
    ("pytest-xdist", PIP + "pytest-xdist", "echo 'def test_a(): pass\ndef test_b(): pass' > ~/test_a.py && "
                                           "~/v/bin/pytest -q -n 2 ~/test_a.py"),
    ("pandas", PIP + "pandas",
     "~/v/bin/python -c 'import pandas as p; assert p.DataFrame({\"a\": [1, 2]}).a.sum() == 3'"),
    ("Jupyter", PIP + "jupyter-client ipykernel nbformat nbclient",
     "~/v/bin/python -c 'import nbformat, nbclient; n = nbformat.v4.new_notebook(cells=["
     "nbformat.v4.new_code_cell(\"print(6*7)\")]); nbclient.execute(n); "
     "assert n.cells[0].outputs[0].text == \"42\\n\"'"),
    ("npm, express", NPM + "express",
     "cd ~/n && cat > a.js <<'E'\nconst s = require('express')().get('/', (q, r) => r.send('hello')).listen(0, () =>\n"
     "  fetch('http://127.0.0.1:' + s.address().port).then(r => r.text())\n"
     "    .then(t => process.exit(t === 'hello' ? 0 : 1)))\n"
     "E\nnode a.js"),
    ("tsc", NPM + "typescript@5", "cd ~/n && echo 'const x: number = 42; console.log(x)' > a.ts && npx tsc a.ts && "
                                  "test \"$(node a.js)\" = 42"),
    ("deno", NPM + "deno", "cd ~/n && echo 'console.log(6*7)' > a.ts && test \"$(npx deno run a.ts)\" = 42"),
    ("Go modules", APT + "golang-go && mkdir -p ~/g && cd ~/g && go mod init a && go get golang.org/x/text@v0.14.0",
     "cd ~/g && printf 'package main\nimport (\"fmt\"; \"golang.org/x/text/cases\"; \"golang.org/x/text/language\")\n"
     "func main() { fmt.Println(cases.Upper(language.English).String(\"go\")) }\n' > a.go && "
     "go mod tidy && test \"$(go run .)\" = GO"),
    # Debian's plain cargo is so old that it clones the whole index from GitHub.
    ("cargo", APT + "cargo-web && cargo new -q ~/c && cd ~/c && cargo add -q itoa@1.0.0",
     "cd ~/c && cargo build -q && test \"$(cargo run -q)\" = 'Hello, world!'"),
    ("JDK, Maven", APT + "default-jdk-headless maven",
     "mkdir -p ~/j/src/main/java && cd ~/j && cat > pom.xml <<'E'\n<project><modelVersion>4.0.0</modelVersion>"
     "<groupId>a</groupId><artifactId>a</artifactId><version>1</version><properties><maven.compiler.source>17"
     "</maven.compiler.source><maven.compiler.target>17</maven.compiler.target></properties></project>\nE\n"
     "echo 'class A { public static void main(String[] a) { System.out.println(42); } }' > src/main/java/A.java && "
     "mvn -q -B compile && test \"$(java -cp target/classes A)\" = 42"),
    # A heap is a quarter of the memory that it takes to be its own; on v1 it looks at no limit: docs/decisions.md.
    ("JDK, limits", APT + "default-jdk-headless",
     "test ! -e /sys/fs/cgroup/memory.max || test $(java -XX:+PrintFlagsFinal -version 2>&1 | "
     "awk '$2 == \"MaxHeapSize\" {print $4}') -le $((1 << 30)); "
     "test $(echo 'System.out.println(Runtime.getRuntime().availableProcessors());' | jshell -s - | tail -1) = 2"),
    ("node, limits", "true",
     "node -e 'process.exit(process.constrainedMemory() === 4 * 2 ** 30 ? 0 : 1)'"),
    ("Chromium", APT + "chromium",
     "echo '<p id=a>' > ~/a.html && chromium --headless --no-sandbox --disable-gpu --dump-dom file://$HOME/a.html | "
     "grep 'id=\"a\"'"),
    ("Playwright", APT + "chromium && " + PIP + "playwright",
     "~/v/bin/python -c 'from playwright.sync_api import sync_playwright as s\nwith s() as p:\n"
     " b = p.chromium.launch(executable_path=\"/usr/bin/chromium\", args=[\"--no-sandbox\"]); g = b.new_page()\n"
     " g.set_content(\"<h1>hi</h1>\"); assert g.inner_text(\"h1\") == \"hi\"'"),
    ("postgres", APT + "postgresql",
     "sudo pg_ctlcluster 15 main start && sudo -u postgres psql -Atc 'select 6*7' | grep -x 42"),
    ("redis", APT + "redis-server", "redis-server --daemonize yes --save '' >/dev/null && "
                                    "redis-cli --no-raw set a 42 && redis-cli get a | grep -x 42"),
    ("sqlite", "true", "sqlite3 ~/a.db 'create table t(a); insert into t values(42); select a from t' | grep -x 42"),
    ("ffmpeg", APT + "ffmpeg", "ffmpeg -v error -f lavfi -i testsrc=d=1:s=64x64 ~/a.mp4 && ffprobe -v error ~/a.mp4"),
    ("tmux", APT + "tmux", "tmux new -d -s a 'echo $((6*7)) > ~/a; sleep 9' && i=0; "
                           "until grep -qx 42 ~/a; do i=$((i+1)); test $i -lt 50 && sleep 0.2 || exit 1; done"),
    ("gdb, strace", APT + "gdb strace", "echo 'int main(void) { return 0; }' > ~/a.c && gcc -g -o ~/a ~/a.c && "
                                        "gdb -batch -ex 'break main' -ex run -ex bt ~/a | grep 'in main\\|main ()' && "
                                        "strace -o ~/t ~/a && grep exit_group ~/t"),
]
FLAGS = {"gdb, strace": ["--ptrace"]}


def try_row(name, get, use, net):
    """(outcome, why)"""
    made = cove("create", "--image", IMAGE, "--net", net, "--mem", "4G", *FLAGS.get(name, []))
    if made.returncode != 0:
        return "failed", last_line(made.stdout)
    box = made.stdout.split()[-1]
    try:
        got = shell(box, get)
        if got.returncode != 0:
            return "skipped", last_line(got.stdout)
        done = shell(box, use)
        return ("passed", "") if done.returncode == 0 else ("failed", last_line(done.stdout))
    finally:
        cove("rm", "-f", box)


def main():
    wanted = sys.argv[1:]
    counts = dict.fromkeys(("passed", "failed", "skipped"), 0)
    if IMAGE == "host":
        print("packages are installed in boxes of the base image only, and there is none")
        return SKIPPED
    net = policy()
    for name, get, use in ROWS:
        if wanted and name not in wanted:
            continue
        outcome, why = try_row(name, get, use, net)
        counts[outcome] += 1
        print(f"{name:<16}{outcome if outcome == 'passed' else outcome.upper():<9}{why}", flush=True)
    print(", ".join(f"{n} {word}" for word, n in counts.items()))
    return 1 if counts["failed"] else 0 if counts["passed"] else SKIPPED


if __name__ == "__main__":
    sys.exit(main())
