/* What the verbs share; see cli.h. */
#include "cli/cli.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/size.h"
#include "base/str.h"
#include "cli/table.h"
#include "cli/term.h"
#include "cli/watch.h"
#include "core/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The longest line on stderr: a sentence of which every byte is escaped fits. */
enum { MESSAGE_MAX = 4096, OBJECT_MAX = 8 << 20, PRETTY_MAX = 64 << 20 };

static void say(const char *text)
{
	struct buf b;

	buf_init(&b, MESSAGE_MAX);
	/* A note that cannot be written has no reader. */
	if (buf_append_str(&b, "cove: ") == 0 && str_escape(&b, text, strlen(text)) == 0 &&
	    buf_append_str(&b, "\n") == 0)
		(void)fd_write_full(STDERR_FILENO, buf_data(&b), buf_len(&b));
	buf_done(&b);
}

void cli_note(const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	say(text);
}

/* The message may be longer than the error's own. */
static int fail(struct cli *c, const struct cove_error *err, const char *message)
{
	char code[ERR_CODE_NAME];
	struct cli_object o;
	struct json *j;

	say(message);
	if (c->o.json) {
		j = cli_object_begin(&o);
		json_key(j, "error");
		json_object_begin(j);
		json_kv_str(j, "kind", cove_error_name(err->kind));
		if (err_code_name(err->code, code))
			json_kv_str(j, "code", code);
		json_kv_str(j, "message", message);
		json_object_end(j);
		(void)cli_object_end(c, &o);
	}
	return err_kind_exit((enum err_kind)err->kind);
}

int cli_fail(struct cli *c, const struct cove_error *err)
{
	return fail(c, err, err->message);
}

int cli_broken(struct cli *c, const struct cove_error *err)
{
	int status = cli_fail(c, err);

	return status == EXIT_USAGE ? EXIT_COVE : status;
}

int cli_not_imported(struct cli *c, const char *name, const struct cove_error *err)
{
	return name && !str_is_name(name, BOX_NAME_MAX) ? cli_fail(c, err) : cli_broken(c, err);
}

int cli_error(struct cli *c, enum cove_error_kind kind, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return fail(c, &(struct cove_error){.kind = kind}, text);
}

int cli_usage(struct cli *c, const char *fmt, ...)
{
	char text[512], all[640];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	snprintf(all, sizeof(all), "%s; see `cove help %s`", text, c->verb->name);
	fail(c, &(struct cove_error){.kind = COVE_INVALID}, all);
	return EXIT_USAGE;
}

/* A log that cannot be written does not end the run: the events are not its purpose. */
static void on_event(void *arg, const char *line, const char *json)
{
	struct cli *c = arg;
	struct buf b;

	c->events++;
	buf_init(&b, 256 << 10);
	if (c->o.verbose && buf_printf(&b, "%s%s", line, term_eol()) == 0)
		(void)fd_write_full(STDERR_FILENO, buf_data(&b), buf_len(&b));
	buf_clear(&b);
	if (c->log_fd >= 0 && buf_printf(&b, "%s\n", json) == 0)
		(void)fd_write_full(c->log_fd, buf_data(&b), buf_len(&b));
	buf_done(&b);
}

int cli_open(struct cli *c)
{
	struct cove_options options = {.size = sizeof(options), .arg = c};
	const char *log = c->o.log_file ? c->o.log_file : getenv("COVE_LOG");
	struct cove_error err;

	if (c->cove)
		return 0;
	if (log && *log) {
		c->log_fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0600);
		if (c->log_fd < 0)
			return cli_error(c, COVE_DENIED, "log file '%.200s': %s", log,
					 strerror(errno));
	}
	if (c->o.verbose || c->log_fd >= 0)
		options.on_event = on_event;
	if (cove_new(&c->cove, &options, &err) < 0)
		return cli_broken(c, &err);
	spawn_as_children(c->cove);
	return 0;
}

int cli_out(struct cli *c, const void *p, size_t n)
{
	int r = fd_write_full(STDOUT_FILENO, p, n);

	if (r == -EPIPE)
		return EXIT_SIGNAL + SIGPIPE;
	if (r < 0) {
		cli_note("cannot write to stdout: %s", strerror(-r));
		return EXIT_COVE;
	}
	return 0;
}

int cli_out_buf(struct cli *c, const struct buf *b)
{
	return buf_len(b) ? cli_out(c, buf_data(b), buf_len(b)) : 0;
}

struct json *cli_object_begin(struct cli_object *o)
{
	buf_init(&o->text, OBJECT_MAX);
	json_init(&o->j, &o->text);
	json_object_begin(&o->j);
	return &o->j;
}

int cli_object_end(struct cli *c, struct cli_object *o)
{
	int r;

	json_object_end(&o->j);
	r = o->j.error ? o->j.error : buf_append_str(&o->text, "\n");
	if (r < 0) {
		cli_note("the answer is too long to print");
		r = EXIT_COVE;
	} else {
		r = cli_out_buf(c, &o->text);
	}
	buf_done(&o->text);
	return r;
}

static void new_line(struct buf *b, int depth)
{
	(void)buf_printf(b, "\n%*s", depth * 2, "");
}

/* Our own compact JSON with line breaks: it is not checked, only broken in the right places. */
static int indent_json(struct buf *b, const char *s)
{
	int depth = 0;

	for (size_t i = 0, end; s[i]; i = end) {
		end = i + 1;
		if (s[i] == '"') {
			while (s[end] && s[end] != '"')
				end += s[end] == '\\' && s[end + 1] ? 2 : 1;
			end += s[end] == '"';
			(void)buf_append(b, s + i, end - i);
		} else if ((s[i] == '{' && s[end] == '}') || (s[i] == '[' && s[end] == ']')) {
			(void)buf_append(b, s + i, 2);
			end++;
		} else if (s[i] == '{' || s[i] == '[') {
			(void)buf_append(b, s + i, 1);
			new_line(b, ++depth);
		} else if (s[i] == '}' || s[i] == ']') {
			new_line(b, --depth);
			(void)buf_append(b, s + i, 1);
		} else if (s[i] == ',') {
			(void)buf_append(b, s + i, 1);
			new_line(b, depth);
		} else if (s[i] == ':') {
			(void)buf_append_str(b, ": ");
		} else if (s[i] != ' ' && s[i] != '\n') {
			(void)buf_append(b, s + i, 1);
		}
	}
	return buf_append_str(b, "\n");
}

int cli_out_json(struct cli *c, const char *json)
{
	struct buf b;
	int r;

	buf_init(&b, PRETTY_MAX);
	if (c->o.json)
		r = buf_printf(&b, "%s\n", json);
	else
		r = indent_json(&b, json);
	r = r < 0 ? cli_error(c, COVE_LIMIT, "the answer is too long to print")
		  : cli_out_buf(c, &b);
	buf_done(&b);
	return r;
}

struct cove_box_options cli_box_options(const struct options *o)
{
	struct cove_box_options b = o->box;
	struct stat st;

	/* A slash makes it a directory and not a name: "." and ".." mean directories too. */
	if (b.workspace && strcmp(b.workspace, ".") == 0)
		b.workspace = "./";
	else if (b.workspace && strcmp(b.workspace, "..") == 0)
		b.workspace = "../";
	/* Who forgot the slash looks for the files of a directory in an empty workspace. */
	if (b.workspace && *b.workspace && !strchr(b.workspace, '/') &&
	    stat(b.workspace, &st) == 0 && S_ISDIR(st.st_mode))
		cli_note("'%.60s' names a kept workspace; for the directory that is here say "
			 "--workspace ./%.60s",
			 b.workspace, b.workspace);
	b.size = sizeof(b);
	b.mounts = o->mounts.items;
	b.env = o->env.items;
	b.labels = o->labels.items;
	b.allow = o->allow.items;
	b.deny = o->deny.items;
	return b;
}

struct cove_command cli_command(const struct options *o)
{
	return (struct cove_command){
		.size = sizeof(struct cove_command),
		.env = o->env.items,
		.cwd = o->box.cwd,
		.user = o->box.user,
		.timeout_ms = o->given[OPT_TIMEOUT] && o->box.timeout_ms == 0 ? COVE_NO_TIMEOUT
									      : o->box.timeout_ms,
		.background = o->background,
		.token = o->token,
		.merge = o->merge,
		.grace_ms = o->given[OPT_GRACE] && o->grace_ms == 0 ? COVE_NO_GRACE : o->grace_ms,
	};
}

int cli_find(struct cli *c, struct cove_box **ret)
{
	struct cove_error err;

	return cove_find(c->cove, c->o.args[0], ret, &err) < 0 ? cli_fail(c, &err) : 0;
}

int cli_exec_id(struct cli *c, const char *text, uint64_t *ret)
{
	if (str_parse_u64(text, UINT64_MAX, ret))
		return 0;
	return cli_usage(c, "'%.60s' is not an exec id; `cove ps %.60s` lists them", text,
			 c->o.args[0]);
}

/* A command that met a limit of its box: which, how much that is, and what raises it. */
static void say_limit(const struct cove_result *result)
{
	static const struct {
		const char *limit, *what;
		enum { IN_BYTES, IN_MS, IN_NUMBER } unit;
	} words[] = {{"mem", "out of memory", IN_BYTES},
		     {"pids", "too many processes", IN_NUMBER},
		     {"disk", "disk full", IN_BYTES},
		     {"ttl", "the box's time was over", IN_MS},
		     {"idle", "the box was idle for too long", IN_MS}};
	unsigned long long value = result->limit_value;
	char shown[SIZE_TEXT], time[16];

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(result->limit, words[i].limit) != 0)
			continue;
		snprintf(shown, sizeof(shown), "%llu", value);
		if (words[i].unit == IN_BYTES)
			size_format(shown, value);
		else if (words[i].unit == IN_MS)
			str_copy(shown, sizeof(shown), text_duration(time, value));
		if (value)
			cli_note("%s: the box's limit is %s; %s", words[i].what, shown,
				 result->remedy);
		else
			cli_note("%s; %s", words[i].what, result->remedy);
	}
}

int cli_result_status(const struct cove_result *result)
{
	say_limit(result);
	if (strcmp(result->cause, "stopped") == 0)
		cli_note("the box was stopped");
	if (result->never_started)
		cli_note("it waited for its shell and never started");
	if (result->timed_out)
		cli_note("timed out after %.1f s", (double)result->duration_ms / 1000);
	if (result->has_exit)
		return result->exit_code;
	cli_note("the command's outcome is unknown (%s); it was not run again",
		 result->cause[0] ? result->cause : "interrupted");
	return EXIT_COVE;
}

int cli_done(struct cli *c, const char *name, const char *result, unsigned events)
{
	struct cli_object o;
	struct json *j;
	struct buf b;

	buf_init(&b, MESSAGE_MAX);
	if (c->o.verbose && c->events == events && buf_append_str(&b, "[cove] ") == 0 &&
	    str_escape(&b, name, strlen(name)) == 0 && buf_printf(&b, ": %s\n", result) == 0)
		(void)fd_write_full(STDERR_FILENO, buf_data(&b), buf_len(&b));
	buf_done(&b);
	if (!c->o.json)
		return 0;
	j = cli_object_begin(&o);
	json_kv_str(j, "name", name);
	json_kv_str(j, "result", result);
	return cli_object_end(c, &o);
}

int cli_each(struct cli *c, size_t first, const char *result,
	     int (*call)(struct cli *c, const char *name, struct cove_error *err))
{
	struct cove_error err;
	struct watch watch;
	int status = 0;

	for (size_t i = first; i < c->o.arg_count; i++) {
		const char *name = c->o.args[i];
		unsigned events = c->events;
		int r;

		watch_start_words(&watch, c->verb->name, name, c->o.json || c->o.verbose);
		r = call(c, name, &err);
		watch_stop(&watch);
		if (r > 0)
			return r;
		if (r < 0)
			r = cli_fail(c, &err);
		else if (result)
			r = cli_done(c, name, result, events);
		status = r ? r : status;
	}
	return status;
}
