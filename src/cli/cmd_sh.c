/* cove sh: a line in a box's persistent shell. */
#include "base/fd.h"
#include "base/limits.h"
#include "cli/command.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A line longer than an argument may be comes through stdin. */
static int read_line(struct buf *line)
{
	char piece[16384];
	ssize_t n;
	int r = 0;

	while (r == 0 && (n = fd_read_full(STDIN_FILENO, piece, sizeof(piece))) != 0) {
		if (n < 0)
			return (int)n;
		r = memchr(piece, 0, (size_t)n) ? -EINVAL : buf_append(line, piece, (size_t)n);
	}
	return r;
}

static int get_line(struct cli *c, struct buf *line)
{
	bool from_stdin = strcmp(c->o.args[1], "-") == 0;
	int r;

	if (c->o.arg_count > 2)
		return cli_usage(c,
				 "LINE is one argument: quote it, and write flags before BOX "
				 "(after the line: '%.60s')",
				 c->o.args[2]);
	if (from_stdin && c->o.interactive)
		return cli_usage(c, "'-' and -i both want stdin");
	r = from_stdin ? read_line(line) : buf_append_str(line, c->o.args[1]);
	if (r == -EINVAL)
		return cli_error(c, COVE_INVALID, "the line holds a NUL byte");
	if (r == -ENOBUFS || buf_len(line) > LINE_BYTES_MAX)
		return cli_error(c, COVE_LIMIT,
				 "the line is longer than %u bytes; use `cove cp` and source it",
				 LINE_BYTES_MAX);
	if (r < 0)
		return cli_error(c, COVE_INTERNAL, "read the line: %s", strerror(-r));
	return 0;
}

static int run(struct cli *c)
{
	struct cove_command command = cli_command(&c->o);
	struct buf line;
	int r;

	buf_init(&line, LINE_BYTES_MAX + 1); /* and its end */
	r = get_line(c, &line);
	if (r == 0)
		r = cli_find(c, &c->box);
	command.line = buf_cstr(&line);
	command.shell = c->o.shell ? c->o.shell : "default";
	command.login = c->o.login;
	if (r == 0 && !command.line)
		r = cli_error(c, COVE_LIMIT, "the line is too long");
	else if (r == 0 && c->o.background)
		r = command_background(c, c->box, &command);
	else if (r == 0)
		r = command_run(c, c->box, &command, 0);
	buf_done(&line);
	return r;
}

const struct verb verb_sh = {
	.name = "sh",
	.synopsis = "sh [--shell NAME] BOX LINE",
	.summary = "a line in a shell that remembers",
	.help = "cd, export, functions and background jobs stay for the next line. A box has\n"
		"as many named shells as you use (--shell); lines sent to one shell at the\n"
		"same time queue: `cove ps` calls them queued, waiting counts into --timeout,\n"
		"and Ctrl-C takes a line out of the queue; -d returns at once with its id.\n"
		"stdin is empty unless -i. LINE '-' reads the line from stdin. A line that\n"
		"times out is ended with everything it started, by SIGTERM and after --grace by\n"
		"SIGKILL; the shell stays if it can.\n"
		"`exit 3` returns 3 and the next line starts a fresh shell; so do `exec`,\n"
		"`kill $$` and a failure under `set -e`, which end it as they end a script. A\n"
		"[cove] line on stderr says that the shell's state was lost.\n"
		"-e, -w, -u and --login are for the line that starts the shell, which has them\n"
		"from then on; in a shell that runs already -e and -w, --login where it did not,\n"
		"and another user are errors: use cd and export, or another --shell. There is\n"
		"no -t: the letter is for a terminal, which these shells have not.\n"
		"NAME is up to 64 letters, digits, '.', '_' and '-' (a UUID is one); a box has at\n"
		"most 32 shells (`cove shells` lists and ends them), 256 lines wait for one, and\n"
		"LINE has at most 983,040 bytes. A client that is killed leaves its line\n"
		"running: use --timeout.\n"
		"A result holds the first 1 MiB of each stream, or with --max-output (at most\n"
		"1M with --json) the first and the last half of that, and between them a line\n"
		"that says how many bytes were left out; `cove logs --exec ID` has all.\n"
		"stdout and stderr are apart, and their order is not known; --merge makes one\n"
		"stream of them, in the order they were written, on stdout.\n"
		"With --json the result is one object: exec_id, exit_code, stdout, stderr,\n"
		"stdout_bytes, stderr_bytes, cwd, duration_ms, timed_out, oom_killed, signal,\n"
		"truncated, shell (kept, exited, restarted), never_started (true for a line\n"
		"that was ended while it waited), cause (exit, signal, timeout, killed,\n"
		"oom, pids, disk; stopped, ttl, idle with its box), limit (mem, pids, disk,\n"
		"ttl, idle, timeout) with limit_value and remedy, cpu_ms, mem_peak_bytes,\n"
		"io_read_bytes, io_write_bytes, denied; inputs and outputs where files were\n"
		"given; and stdout_base64 or stderr_base64 where the bytes are not UTF-8.\n"
		"\n"
		"Examples\n"
		"  cove sh dev 'cd /tmp; export A=1'\n"
		"  cove sh dev 'pwd; echo $A'                  # /tmp, 1\n"
		"  cove sh --json --timeout 10s dev make | jq .exit_code\n"
		"  cove sh --shell second dev - < script.sh\n"
		"  cove sh --shell admin -u root -w / -e A=1 dev 'id; pwd; echo $A'\n"
		"  cove sh --shell mine --login dev 'type nvm'\n"
		"\n"
		"Exit status: the line's own; 128+N ended by signal N (137: also when the box's\n"
		"memory ran out, and a line on stderr says so); 124 timed out; 125 Cove failed;\n"
		"2 wrong usage.\n",
	.options = (const enum opt_id[]){OPT_SHELL, OPTS_COMMAND, OPTS_FILES, OPT_LOGIN, OPT_GRACE,
					 OPT_MAX_OUTPUT, OPT_MERGE, OPT_INTERACTIVE, OPT_BACKGROUND,
					 OPT_TOKEN, OPTS_COMMON, OPT_END},
	.command_at = 2,
	.args = {2, -1},
	.run = run,
};
