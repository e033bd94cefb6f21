/* Running a command for a user; see command.h. */
#include "cli/command.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/size.h"
#include "cli/copying.h"
#include "cli/stream.h"
#include "cli/term.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* Whether it was the box that did not start. Asked without the events of -v: it is no news. */
static bool is_box_gone(const char *name)
{
	struct cove_box *box = NULL;
	struct cove *cove = NULL;
	bool gone;

	gone = cove_new(&cove, NULL, NULL) < 0 || cove_find(cove, name, &box, NULL) < 0;
	cove_box_free(box);
	cove_free(cove);
	return gone;
}

/* No command can be started in a box that is full of processes, so nothing inside can end them. */
static void say_remedy(struct cli *c, const char *box, const struct cove_error *err)
{
	struct cove_stats now;

	if (err->kind != COVE_LIMIT || err->code != EAGAIN || c->o.json ||
	    cove_stats(c->cove, box, &now, NULL) < 0)
		return;
	/* init comes on top of the limit. */
	if (now.pids_limit && now.pids > now.pids_limit)
		cli_note("`cove ps %s` and `cove kill %s ID` end what left them, `cove stop %s` "
			 "all",
			 box, box, box);
}

/* The error of a command that did not start: 127 and 126 as shells have them, else 125. */
static int command_fail(struct cli *c, struct cove_box *box, const struct cove_error *err)
{
	int status = cli_fail(c, err);

	say_remedy(c, cove_box_name(box), err);
	return is_box_gone(cove_box_name(box)) ? status
					       : err_exec_exit((enum err_kind)err->kind, err->code);
}

bool command_has_stdin(void)
{
	struct stat st;

	if (fstat(STDIN_FILENO, &st) < 0)
		return false;
	if (S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3))
		return false;
	return !isatty(STDIN_FILENO) || term_is_ours(STDIN_FILENO);
}

static size_t max_output_of(const struct options *o)
{
	return o->max_output == UINT64_MAX ? 0 : (size_t)o->max_output;
}

static int check_output(struct cli *c)
{
	uint64_t most = c->o.json ? RESULT_INLINE_MAX : OUTPUT_ENDS_MAX, n = max_output_of(&c->o);
	char size[SIZE_TEXT];

	if (n > 0 && c->o.tty)
		return cli_usage(c, "--max-output is not for a terminal (-t)");
	if (n > most)
		return cli_usage(c, "--max-output is at most %s%s", size_format(size, most),
				 c->o.json ? " with --json" : "");
	return 0;
}

static int check_files(struct cli *c)
{
	bool puts_stdin = options_puts_stdin(&c->o), gets_stdout = options_gets_stdout(&c->o);

	if (puts_stdin && (c->o.interactive || c->o.tty))
		return cli_usage(c, "stdin is a file (--in -:DST): it cannot be the command's too");
	if (gets_stdout && (c->o.json || c->o.tty))
		return cli_usage(c, "stdout is for a file (--out P:-): %s goes elsewhere",
				 c->o.json ? "no JSON" : "no terminal");
	return 0;
}

/* Who they are for, and where paths begin, is as for the command. */
static struct cove_files files_of(const struct cli *c, const struct cove_command *command,
				  const struct cove_copy *how)
{
	return (struct cove_files){.size = sizeof(struct cove_files),
				   .inputs = c->o.inputs.items,
				   .input_count = c->o.inputs.count,
				   .outputs = c->o.outputs.items,
				   .output_count = c->o.outputs.count,
				   .cwd = command->cwd,
				   .how = how};
}

static void say_left_out(const char *what, const struct cove_transfer *t)
{
	if (t->left_out > 0 && t->error.kind == COVE_OK)
		cli_note("%llu of %s '%.150s' left out: no file, directory or link",
			 (unsigned long long)t->left_out, what, t->from ? t->from : "-");
}

static int put_files(struct cli *c, struct cove_box *box, const struct cove_command *command)
{
	struct copying p;
	struct cove_copy how = copying_how(&p, command->user);
	struct cove_files files = files_of(c, command, &how);
	struct cove_error err;
	int r;

	if (files.input_count + files.output_count == 0)
		return 0;
	copying_start(&p, !options_puts_stdin(&c->o));
	r = cove_put_files(box, &files, &err);
	copying_end(&p);
	if (r < 0 && p.signal) {
		cli_note("the copy was interrupted, and the command not started");
		return EXIT_SIGNAL + p.signal;
	}
	if (r < 0)
		return err.kind == COVE_INVALID && err.code == EEXIST ? cli_fail(c, &err)
								      : cli_broken(c, &err);
	for (size_t i = 0; i < files.input_count; i++)
		say_left_out("input", &files.inputs[i]);
	return 0;
}

/* What the command left, also when it failed. 0, or a status where not all of it came. */
static int get_files(struct cli *c, struct cove_box *box, const struct cove_command *command)
{
	struct copying p;
	struct cove_copy how = copying_how(&p, command->user);
	struct cove_files files = files_of(c, command, &how);
	struct cove_error err;
	int failed;

	if (files.output_count == 0)
		return 0;
	copying_start(&p, !options_gets_stdout(&c->o));
	failed = cove_get_files(box, &files, &err);
	copying_end(&p);
	if (failed < 0)
		cli_note("no output: %s", err.message);
	for (size_t i = 0; failed >= 0 && i < files.output_count; i++) {
		const struct cove_transfer *t = &files.outputs[i];

		if (t->error.kind != COVE_OK)
			cli_note("output '%.150s': %s", t->from, t->error.message);
		say_left_out("output", t);
	}
	if (p.signal)
		return EXIT_SIGNAL + p.signal;
	return failed == 0 ? 0 : EXIT_COVE;
}

struct command_plan {
	struct stream_options stream;
	const char **env; /* owned array */
	char term[64];
};

static int plan_make(struct command_plan *p, const struct options *o, struct cove_command *command,
		     unsigned flags)
{
	bool ours = term_is_ours(STDIN_FILENO), puts_stdin = options_puts_stdin(o);
	bool has_streams = !puts_stdin && !options_gets_stdout(o);
	size_t n = 0;

	command->pty = o->tty || (!o->no_tty && !o->json && !max_output_of(o) && has_streams &&
				  (flags & COMMAND_TERMINAL) && ours && isatty(STDOUT_FILENO));
	p->stream.out_to_err = options_gets_stdout(o);
	p->stream.collect = o->json;
	p->stream.max_output = max_output_of(o);
	p->stream.grace_ms = command->grace_ms;
	p->stream.raw = command->pty && ours;
	if (o->interactive || command->pty)
		p->stream.input = command_has_stdin();
	else
		p->stream.input = (flags & COMMAND_STDIN) && !puts_stdin && !isatty(STDIN_FILENO) &&
				  command_has_stdin();
	command->stream_input = p->stream.input;
	if (!command->pty)
		return 0;
	if (!term_size(STDIN_FILENO, &command->rows, &command->cols))
		term_size(STDOUT_FILENO, &command->rows, &command->cols);
	/* TERM first, so that the user's own -e TERM=... wins. */
	while (command->env && command->env[n])
		n++;
	p->env = calloc(n + 2, sizeof(*p->env));
	if (!p->env)
		return -ENOMEM;
	snprintf(p->term, sizeof(p->term), "TERM=%s", term_type());
	p->env[0] = p->term;
	for (size_t i = 0; i < n; i++)
		p->env[i + 1] = command->env[i];
	command->env = p->env;
	return 0;
}

/* A program has them in its JSON. */
static void say_denied(const struct cli *c, const struct cove_result *r)
{
	char line[700];

	if (!c->o.verbose && !isatty(STDERR_FILENO))
		return;
	for (size_t i = 0; i < r->denied_count; i++) {
		const struct cove_denial *d = &r->denied[i];
		char port[16] = "";

		if (d->port)
			snprintf(port, sizeof(port), ":%u", d->port);
		snprintf(line, sizeof(line), "[cove] denied: %s%s%s%s (%s)%s%s%s", d->method,
			 d->method[0] ? " " : "", d->host[0] ? d->host : "a request", port,
			 d->reason, d->remedy[0] ? "; " : "", d->remedy, term_eol());
		(void)fd_write_full(STDERR_FILENO, line, strlen(line));
	}
	if (r->denied_more)
		cli_note("%llu more were denied: cove audit --denied",
			 (unsigned long long)r->denied_more);
}

/* What JSON has as "shell". */
static void say_shell(const struct cli *c, const struct cove_result *result)
{
	static const struct {
		const char *state, *text;
	} words[] = {
		{"restarted", "[cove] the shell was restarted: directory, variables and jobs are "
			      "those of a new shell"},
		{"exited", "[cove] the shell ended with this line: the next one has a new shell's "
			   "directory and variables"},
	};
	char line[160];
	int n;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]) && result->shell; i++) {
		if (c->o.json || strcmp(result->shell, words[i].state) != 0)
			continue;
		n = snprintf(line, sizeof(line), "%s%s", words[i].text, term_eol());
		(void)fd_write_full(STDERR_FILENO, line, (size_t)n);
	}
}

static int finish(struct cli *c, const struct stream_end *end, bool one_shot)
{
	autofree char *json = NULL;
	int r;

	if (!end->ended) {
		if (!one_shot)
			cli_note("did not wait for the command; `cove ps %s` shows it",
				 c->o.args[0]);
		return EXIT_SIGNAL + end->left_by;
	}
	if (end->reader_gone)
		return EXIT_SIGNAL + SIGPIPE;
	say_denied(c, &end->result);
	if (c->o.json) {
		json = cove_result_json(&end->result);
		if (!json)
			return cli_error(c, COVE_FULL, "out of memory");
		r = cli_out_json(c, json);
		if (r)
			return r;
	}
	say_shell(c, &end->result);
	return cli_result_status(&end->result);
}

/* Of a command that was left behind nothing is brought: it writes on, or the user waits no more. */
static int end_run(struct cli *c, struct cove_box *box, const struct cove_command *command,
		   const struct stream_end *end)
{
	if (c->o.outputs.count == 0 || !(end->started || end->ended))
		return 0;
	if (!end->left_by)
		return get_files(c, box, command);
	cli_note("no output was brought: the command has not ended");
	return 0;
}

int command_run(struct cli *c, struct cove_box *box, struct cove_command *command, unsigned flags)
{
	bool one_shot = flags & COMMAND_ONE_SHOT;
	struct command_plan plan = {.stream.one_shot = one_shot};
	struct cove_files files;
	struct cove_exec *exec = NULL;
	struct stream_end end = {0};
	struct cove_error err;
	int got, r = check_output(c);

	if (r == 0)
		r = check_files(c);
	if (r)
		return r;
	if (plan_make(&plan, &c->o, command, flags) < 0)
		return cli_error(c, COVE_FULL, "out of memory");
	r = put_files(c, box, command);
	if (r) {
		free(plan.env);
		return r;
	}
	r = cove_exec_start(box, command, &exec, &err);
	if (r >= 0)
		r = stream_drive(box, exec, &plan.stream, &end, &err);
	cove_exec_free(exec);
	got = end_run(c, box, command, &end);
	files = files_of(c, command, NULL);
	if (files.input_count + files.output_count > 0)
		end.result.files = &files;
	r = r < 0 ? command_fail(c, box, &err) : finish(c, &end, one_shot);
	cove_result_free(&end.result);
	free(plan.env);
	return r ? r : got;
}

static int say_started(struct cli *c, const struct cove_box *box,
		       const struct cove_command *command, const struct cove_event *ev)
{
	struct cli_object o;
	struct json *j;
	char text[24];

	if (!c->o.json) {
		snprintf(text, sizeof(text), "%llu\n", (unsigned long long)ev->exec_id);
		return cli_out(c, text, strlen(text));
	}
	j = cli_object_begin(&o);
	json_kv_u64(j, "exec_id", ev->exec_id);
	json_kv_str(j, "box", cove_box_name(box));
	json_kv_str(j, "state", ev->type == COVE_EVENT_QUEUED ? "queued" : "running");
	if (command->shell)
		json_kv_str(j, "shell", command->shell);
	return cli_object_end(c, &o);
}

int command_background(struct cli *c, struct cove_box *box, struct cove_command *command)
{
	struct cove_event ev = {0};
	struct cove_exec *exec = NULL;
	struct cove_error err;
	int r;

	if (c->o.given[OPT_MAX_OUTPUT])
		return cli_usage(c,
				 "-d prints no output: there is nothing for --max-output to cut");
	if (c->o.outputs.count)
		return cli_usage(c, "-d does not wait: there is no end at which --out could be "
				    "brought; use `cove cp` then");
	r = check_files(c);
	if (r == 0)
		r = put_files(c, box, command);
	if (r)
		return r;
	command->pty = c->o.tty;
	/* A terminal that takes no input is of no use to `cove attach`. */
	command->stream_input = c->o.interactive || c->o.tty;
	r = cove_exec_start(box, command, &exec, &err);
	if (r >= 0)
		r = cove_exec_next(exec, -1, &ev, &err);
	r = r < 0 ? command_fail(c, box, &err) : say_started(c, box, command, &ev);
	cove_exec_free(exec);
	return r;
}
