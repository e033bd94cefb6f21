/*
 * cove secret: credentials by name.
 *
 * A value comes from stdin, from the terminal without echo, or stays where it is (a file, a
 * command). It never comes from an argument, which every user of the machine can read while the
 * program runs and the shell keeps for ever, and it is never shown again. While one is held this
 * process leaves no core and cannot be traced, and the memory is locked where that is allowed.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "cli/door.h"
#include "cli/list.h"
#include "cli/signals.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <termios.h>
#include <unistd.h>

/* One byte more than may be, to see that it is too much; and a last line end. */
enum { VALUE_ROOM = DOOR_SECRET_MAX + 3 };
/* A terminal drops what is beyond this of one line, without a word. */
enum { TERMINAL_LINE = 4095 };

static void row(struct table *t, const void *item)
{
	const struct cove_secret_info *s = item;
	char age[16], kept[16];

	table_cell(t, s->name);
	table_cell(t, s->source);
	table_cellf(t, "%s ago", text_duration(age, clock_wall_since_ms(s->changed_ms)));
	table_cell(t, s->cache_ms ? text_duration(kept, s->cache_ms) : "");
	table_cell(t, s->where);
}

/* clang-format off */
#define A(name) FIELD_ALWAYS(cove_secret_info, name)
#define K(name) FIELD_KNOWN(cove_secret_info, name)
static const struct wire_named_field fields[] = {
	A(name), A(source), K(where), A(changed_ms), K(cache_ms), {0}};
/* clang-format on */

static int get(struct cli *c, void *ret, struct cove_error *err)
{
	return cove_secrets(c->cove, ret, err);
}

static const struct list_form form = {
	.titles = {"NAME", "SOURCE", "CHANGED", "KEPT", "WHERE"},
	.empty = "no secrets; `cove secret set NAME` stores one",
	.size = sizeof(struct cove_secret_info),
	.get = get,
	.row = row,
	.fields = fields,
};

/* A line from the terminal that does not show: nothing does from before the prompt on. */
static ssize_t read_silently(const char *what, char *p, size_t room)
{
	struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.events = POLLIN}};
	struct termios was, silent;
	ssize_t n = -EAGAIN;

	if (signals_catch() < 0 || tcgetattr(STDIN_FILENO, &was) < 0)
		return -errno;
	silent = was;
	silent.c_lflag &= ~(tcflag_t)(ECHO | ECHOE | ECHOK);
	silent.c_lflag |= ICANON | ECHONL;
	if (tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent) < 0)
		return -errno;
	(void)fd_write_full(STDERR_FILENO, "value of ", 9);
	(void)fd_write_full(STDERR_FILENO, what, strlen(what));
	(void)fd_write_full(STDERR_FILENO, " (it does not show): ", 21);
	fds[1].fd = signals_fd();
	while (n == -EAGAIN) {
		/* A signal that came before a read would not interrupt it. */
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			n = -errno;
		else if (signals_next_end())
			n = -EINTR;
		else if (fds[0].revents && (n = read(STDIN_FILENO, p, room)) < 0)
			n = errno == EINTR ? -EAGAIN : -errno;
	}
	(void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &was);
	return n >= TERMINAL_LINE ? -E2BIG : n;
}

static int store(struct cli *c, const char *what, char *value)
{
	bool is_terminal = isatty(STDIN_FILENO);
	ssize_t n = is_terminal ? read_silently(what, value, VALUE_ROOM)
				: fd_read_full(STDIN_FILENO, value, VALUE_ROOM);
	struct cove_error err;

	if (n == -EINTR)
		return cli_error(c, COVE_INTERRUPTED, "given up; nothing was stored");
	if (n == -E2BIG)
		return cli_error(c, COVE_LIMIT,
				 "too long for a terminal: give it in a pipe or a "
				 "file; nothing was stored");
	if (n < 0)
		return cli_error(c, COVE_DENIED, "read the value from stdin: %s",
				 strerror((int)-n));
	if ((size_t)n == VALUE_ROOM)
		return cli_error(c, COVE_LIMIT, "a secret has at most %u bytes; nothing was stored",
				 DOOR_SECRET_MAX);
	/* The last line end is the shell's, not the value's. */
	n -= n > 0 && value[n - 1] == '\n';
	n -= n > 0 && value[n - 1] == '\r';
	if (cove_secret_set(c->cove, what, "value", value, (size_t)n, &err) < 0)
		return cli_fail(c, &err);
	return cli_done(c, what, "stored", c->events);
}

static int set_value(struct cli *c, const char *what)
{
	char *value =
		mmap(NULL, VALUE_ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int r;

	if (value == MAP_FAILED)
		return cli_error(c, COVE_FULL, "out of memory");
	/* Where there is no allowance for it the value could be swapped out: then it is the host's
	 * disk, as where it is stored. */
	(void)mlock(value, VALUE_ROOM);
	if (prctl(PR_SET_DUMPABLE, 0) < 0) {
		munmap(value, VALUE_ROOM);
		return cli_error(c, COVE_INTERNAL, "keep the value out of dumps: %s",
				 strerror(errno));
	}
	r = store(c, what, value);
	explicit_bzero(value, VALUE_ROOM);
	munmap(value, VALUE_ROOM);
	return r;
}

/* A path is kept as it is meant here: a door has no directory of its own. */
static int set_place(struct cli *c, const char *what)
{
	bool is_file = c->o.secret_file != NULL;
	autofree char *path = NULL;
	const char *place = c->o.secret_command;
	struct cove_error err;

	if (is_file) {
		path = realpath(c->o.secret_file, NULL);
		if (!path)
			return cli_error(c, errno == ENOENT ? COVE_NOT_FOUND : COVE_DENIED,
					 "file '%.120s': %s", c->o.secret_file, strerror(errno));
		place = path;
	}
	if ((is_file ? cove_secret_set(c->cove, what, "file", place, strlen(place), &err)
		     : cove_secret_set_command(c->cove, what, place, c->o.cache_ms, &err)) < 0)
		return cli_fail(c, &err);
	return cli_done(c, what, "stored", c->events);
}

static int set(struct cli *c)
{
	if (c->o.arg_count < 2)
		return cli_usage(c, "usage: cove secret set NAME, with the value on stdin");
	/* What stands there may be the secret: it is not repeated. */
	if (c->o.arg_count > 2)
		return cli_usage(c, "a value is never taken from an argument, which others can see "
				    "and shells remember: give it on stdin");
	if (c->o.secret_file && c->o.secret_command)
		return cli_usage(c, "--file and --command exclude each other");
	if (c->o.given[OPT_CACHE] && (!c->o.secret_command || c->o.cache_ms == 0))
		return cli_usage(c,
				 "--cache is a time (15m), and for --command: a value and a file "
				 "cost nothing to read");
	return c->o.secret_file || c->o.secret_command ? set_place(c, c->o.args[1])
						       : set_value(c, c->o.args[1]);
}

static int remove_one(struct cli *c, const char *secret, struct cove_error *err)
{
	return cove_secret_remove(c->cove, secret, err);
}

static int run(struct cli *c)
{
	const char *what = c->o.args[0];

	if (strcmp(what, "set") == 0)
		return set(c);
	if (c->o.secret_file || c->o.secret_command || c->o.given[OPT_CACHE])
		return cli_usage(c, "--file, --command and --cache are for set");
	if (strcmp(what, "ls") == 0)
		return c->o.arg_count > 1
			       ? cli_usage(c, "unexpected argument; usage: cove secret ls")
			       : list_run(c, &form);
	if (strcmp(what, "rm") == 0)
		return c->o.arg_count < 2
			       ? cli_usage(c, "which secret? `cove secret ls` lists them")
			       : cli_each(c, 1, "removed", remove_one);
	return cli_usage(c, "no '%.60s' here: set, ls or rm", what);
}

const struct verb verb_secret = {
	.name = "secret",
	.synopsis = "secret set NAME | ls | rm NAME...",
	.summary = "credentials that boxes never see",
	.help = "set     store the value that stands on stdin, without its last line end; from a\n"
		"        terminal it is asked for and does not show. With --file or --command it\n"
		"        stays where it is, and is read there whenever a door needs it; with\n"
		"        --cache a box's door keeps what the command printed for that long\n"
		"ls      names and where they come from; a value is never shown again\n"
		"rm      remove them; policies that name one are not good any more\n"
		"\n"
		"A rule of a policy uses it as {{ secret.NAME }}, in a header, a query parameter\n"
		"or as a client certificate. The door adds it outside the box.\n"
		"\n"
		"Examples\n"
		"  cove secret set API_TOKEN < token.txt\n"
		"  pass show api | cove secret set API_TOKEN\n"
		"  cove secret set API_TOKEN --command 'pass show api'\n"
		"  cove secret set CLOUD --command 'cloud print-token' --cache 15m\n"
		"  cove secret ls\n",
	.options = (const enum opt_id[]){OPT_SECRET_FILE, OPT_SECRET_COMMAND, OPT_CACHE, OPT_QUIET,
					 OPTS_COMMON, OPT_END},
	.args = {1, -1},
	.run = run,
};
