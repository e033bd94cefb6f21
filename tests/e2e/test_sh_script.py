"""A text of `cove sh` and the same text as a script of bash: both must show the same.

What differs on purpose is in docs/decisions.md and has its own table here. Messages are compared without
their beginning: `bash script` names the file and the line, the shell names itself.
"""
import json
import re

import pytest

pytestmark = pytest.mark.once("root")

SAME = [
    "shopt -s extglob\ncase xx in @(x|xx)) echo ext;; esac",
    "shopt -s expand_aliases\nalias x='echo aliased'\nx 1",
    "echo 1\necho 2\necho 3\necho 4\nif ) then\necho 6",
    "echo \"abc", "echo a\necho 'b", "echo $(", "fi", "{ echo a; }; }", "echo a; if", "echo a\nf() {",
    "cat <<E\ntext", "cat <<'E'\nte$xt\nE\necho ok", "cat <<-E\n\ta\n\tE\necho $LINENO",
    "f() {\n  cat <<E\n  hi $1\nE\n}\nf you\nfor i in 1 2; do\n  echo $i\ndone",
    "x=(1 2\n3)\necho ${#x[@]}", "echo a \\", "", "# only a comment", "echo a # b",
    "set -e\nfalse\necho no", "set -eu\nshopt -s extglob\necho @(x)\necho $NOPE\necho no",
    "set -u\nshopt -s extglob\ncase xx in @(x|xx)) echo ext;; esac\necho $NOPE\necho no",
    "cd /tmp\n: ${HOME:?}\nshopt -s extglob\ncase xx in @(x|xx)) echo ext $LINENO;; esac\necho ${X?gone}\nset -x\nls",
    "echo ': ${HOME:?}' >/tmp/q; . /tmp/q\n. /tmp/q\nshopt -s extglob\ncase x in @(x)) echo ext;; esac\necho $LINENO",
    "echo ${X:?gone}\necho no", "f() { : ${1:?}; }\nf 1\nf\necho no", "f() { exit 4; }\nf\necho no",
    "set -o pipefail\nfalse | true\necho $?", "echo $((1/0)); echo same\necho next", "let 1/0\necho after",
    "readonly r=1\nr=2\necho after", "echo ${a b}\necho after", "shopt -s failglob\necho /nonexist*\necho after",
    "trap 'echo err $?' ERR\nfalse\n(exit 3)\ntrue\necho end", "trap 'echo D' DEBUG\necho a\necho b",
    "trap 'echo bye $?' EXIT\necho a\nexit 3", "set -T\ntrap 'echo T' DEBUG\nf() { :; }\nf",
    "f() { trap 'echo R' RETURN; echo f; }\nf\necho end\ntrap - RETURN",
    "set -v\necho a\necho b", "BASH_XTRACEFD=3 3>/dev/null; PS4=; set -x\necho a",
    "echo a b; echo $_", "false | true | (exit 3); echo ${PIPESTATUS[@]}", "history; fc -l 2>/dev/null; echo $?",
    "echo $LINENO\nf() { echo $LINENO; }\nf\n\necho $LINENO", "echo $# \"$@\" ${FUNCNAME-none}",
    "exec 3>/tmp/q; echo x >&3; cat /tmp/q", "exec /nonexistent\necho after", "exec sleep 0.6",
    "exec bash -c 'sleep 0.6; echo replaced; exit 7'", "exec >/tmp/q; echo hidden; cat /tmp/q >&2",
    "sh -c 'kill -SEGV $$'", "sh -c 'kill -KILL $$'", "sh -c 'kill -ABRT $$'",
    "nosuchcommand; echo $?", "cd /nonexistent\necho $?", "unset PATH\nls\necho $?", "set -o posix\necho p",
    "true &\nwait; echo done", "sleep 0.01 & wait $!; echo $?", "jobs; echo $?", "break; echo b",
    # What does not parse in the middle of a text that an unset variable may end: nothing before it is skipped.
    ". /dev/null\ncd /tmp\nx=( a | b )\npwd", ". /dev/null\necho a\n}\necho b", "set -u\ncd /tmp\nx=( a | b )\npwd",
    "kill -INT $$\necho no", "trap 'echo int' INT\nkill -INT $$\necho yes", "eval 'echo a; )'; echo $?",
    "IFS=0:x; a=1:2; set -- $a; echo $1$2", "trap '' INT; kill -INT $$; echo on",
    "builtin() { echo mine; }; builtin x", "source() { echo mine; }; source x; : () { echo c; }; :",
    "command() { echo c; }; trap() { echo t; }; kill() { echo k; }; command x; trap x; kill x",
]

# What each shows here, and why it cannot be as in a script: docs/decisions.md.
DIFFERENT = [
    ("set -x\necho a", 0, "a\n", "++ echo a\n"),
    ("echo a; return 3; echo b", 3, "a\n", ""),
    ("trap 'echo bye' EXIT\necho a", 0, "a\n", ""),
    ("trap 'echo R' RETURN\necho end", 0, "end\nR\n", ""),
    ("sh -c 'kill -SEGV $$'; echo $?", 0, "139\n", ""),
    ("set -n\necho a", 0, "a\n", ""),
    ("set -u\ncd /tmp\nx=$(if)\npwd", 0, "/tmp\n",
     "bash: line 3: syntax error near unexpected token `)'\nbash: line 3: `x=$(if)'\n"),
]

RUN_ALL = """
import json, subprocess, sys
def run(text):
    open("/tmp/script", "w").write(text)
    r = subprocess.run(["bash", "/tmp/script"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return r.returncode if r.returncode >= 0 else 128 - r.returncode, r.stdout, r.stderr
print(json.dumps([run(t) for t in json.load(sys.stdin)]))
"""


def plain(errors):
    """Messages without who says so, where, and about which process."""
    errors = re.sub(r"(?m)^(bash|/tmp/script): (line \d+: )?( *\d+ )?", "", errors)
    return re.sub(r"(?m)^(Segmentation fault|Killed|Aborted)( .*)?$", r"\1", errors)


def lines_of_syntax_errors(errors):
    return re.findall(r"(?m)^[^ ]*: (line \d+): (?:syntax error|unexpected EOF)", errors)


def fresh(cove, box, text):
    """A text in a shell of its own."""
    got = cove.sh(box, text, "--timeout", "60s")
    cove.sh(box, "kill -9 $$" if "kill()" not in text else "unset -f kill; kill -9 $$", "--timeout", "60s")
    return got["exit_code"], got["stdout"], got["stderr"]


def test_a_text_shows_what_a_script_shows(cove, box):
    texts = json.dumps(SAME).encode()
    scripts = json.loads(cove("exec", "-i", box, "--", "python3", "-c", RUN_ALL, input=texts).ok().out)
    assert len(scripts) == len(SAME)
    for text, (status, out, err) in zip(SAME, scripts):
        got = fresh(cove, box, text)
        assert (text, got[0], got[1], plain(got[2])) == (text, status, out, plain(err))
        assert (text, lines_of_syntax_errors(got[2])) == (text, lines_of_syntax_errors(err))
        assert "/dev/cove" not in got[2]


@pytest.mark.parametrize("text, status, out, err", DIFFERENT)
def test_where_a_text_differs_from_a_script(cove, box, text, status, out, err):
    assert fresh(cove, box, text) == (status, out, err)


def test_20000_lines(cove, box):
    got = cove.sh(box, "-", input=("n=0\n" + "n=$((n+1))\n" * 20_000 + "echo $n").encode())
    assert got["stdout"] == "20000\n" and got["shell"] == "kept"


def test_an_executed_program_runs_to_its_end(cove, box):
    got = cove.sh(box, "exec sh -c 'sleep 1; echo end; exit 7'")
    assert (got["exit_code"], got["stdout"], got["shell"]) == (7, "end\n", "exited")


@pytest.mark.parametrize("text", [
    "readonly PS1", "builtin() { :; }", "enable -n source builtin", "kill -INT $$", "chmod 000 /dev/cove",
    "sudo -n chmod 000 /dev/cove", "sudo -n sh -c 'rm -f /dev/cove/*'", "PROMPT_COMMAND='while :; do :; done'",
    "ulimit -n 10",
])
def test_what_keeps_the_shell(cove, box, text):
    cove.sh(box, "mark=1")
    assert cove.sh(box, text, "--timeout", "60s")["shell"] == "kept"
    got = cove.sh(box, "echo >>/tmp/count; echo $mark; cat /tmp/count | wc -l", "--timeout", "60s")
    assert (got["stdout"], got["shell"]) == ("1\n1\n", "kept")


def test_what_cannot_keep_the_shell_says_so(cove, box):
    cove.sh(box, "mark=1; ulimit -n 7")
    got = cove.sh(box, "echo >>/tmp/count; echo [$mark]; cat /tmp/count | wc -l")
    assert (got["stdout"], got["shell"]) == ("[]\n1\n", "restarted")
