/*
 * cove: the command line. Finds the verb, parses its options, calls it.
 *
 * Every verb is one file (cmd_<verb>.c) and one entry below. Nothing is set up that a verb does not
 * ask for: `cove run` has a millisecond to spend here, and spends most of it in the kernel.
 */
#include "base/fd.h"
#include "base/log.h"
#include "base/path.h"
#include "base/str.h"
#include "cli/list.h"
#include "cli/signals.h"
#include "core/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SECTION_VERBS = 12, VERBS_MAX = 64, HELP_MAX = 64 << 10 };

#define INDENT "\n                                          "

static const struct {
	const char *title;
	const struct verb *verbs[SECTION_VERBS];
} sections[] = {
	{"Run something", {&verb_run, &verb_shell}},
	{"Boxes that stay",
	 {&verb_create, &verb_ls, &verb_inspect, &verb_stats, &verb_pause, &verb_resume, &verb_set,
	  &verb_stop, &verb_start, &verb_rm}},
	{"Going back, trying out", {&verb_snapshot, &verb_rollback, &verb_fork}},
	{"What boxes changed", {&verb_diff, &verb_merge}},
	{"Sessions: your own id, always the same box", {&verb_open, &verb_close}},
	{"Work in a box",
	 {&verb_sh, &verb_shells, &verb_exec, &verb_ps, &verb_logs, &verb_attach, &verb_wait,
	  &verb_kill}},
	{"Files in a box", {&verb_cp, &verb_read, &verb_edit, &verb_glob, &verb_grep, &verb_watch}},
	{"The network",
	 {&verb_policy, &verb_allow, &verb_deny, &verb_asks, &verb_answer, &verb_secret,
	  &verb_audit, &verb_port, &verb_ports}},
	{"What boxes stand on",
	 {&verb_image, &verb_workspace, &verb_wall, &verb_system, &verb_doctor}},
	{"The API", {&verb_serve, &verb_key, &verb_pool, &verb_webhook}},
	{"Another program's verbs", {&verb_sbx}},
	{"About", {&verb_help, &verb_version}},
};

#define SECTIONS (sizeof(sections) / sizeof(sections[0]))

const struct verb *verb_find(const char *name, const char *next)
{
	const struct verb *found = NULL;

	for (size_t i = 0; i < SECTIONS && !found; i++)
		for (const struct verb *const *v = sections[i].verbs; *v && !found; v++)
			if (strcmp((*v)->name, name) == 0)
				found = *v;
	if (!found || !found->own || !next)
		return found;
	for (const struct verb *const *v = found->own; *v; v++)
		if (strcmp((*v)->name + strlen(name) + 1, next) == 0)
			return *v;
	return found;
}

/* A verb whose second word is exactly this: `cove pull` is meant for `cove image pull`. What other
 * programs call theirs, too; an image's first. */
static const char *find_second(const char *name)
{
	static const struct {
		const char *said, *meant;
	} others[] = {{"rmi", "image rm"}, {"images", "image ls"}, {"history", "image history"}};
	const char *found = NULL;

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]) && !found; i++)
		if (strcmp(others[i].said, name) == 0)
			found = others[i].meant;
	for (const struct verb *const *v = verb_image.own; *v && !found; v++)
		if (strcmp((*v)->name + strlen("image "), name) == 0)
			found = (*v)->name;
	for (size_t i = 0; i < SECTIONS; i++)
		for (const struct verb *const *v = sections[i].verbs; *v && !found; v++)
			for (const struct verb *const *own = (*v)->own; own && *own && !found;
			     own++)
				if (strcmp((*own)->name + strlen((*v)->name) + 1, name) == 0)
					found = (*own)->name;
	return found;
}

int help_unknown(struct cli *c, const char *name)
{
	const char *names[VERBS_MAX + 1] = {NULL}, *near;
	size_t n = 0;

	for (size_t i = 0; i < SECTIONS; i++)
		for (const struct verb *const *v = sections[i].verbs; *v && n < VERBS_MAX; v++)
			names[n++] = (*v)->name;
	near = find_second(name);
	if (!near)
		near = str_closest(name, names);
	if (name[0] == '-')
		cli_error(c, COVE_INVALID, "'%.60s': options stand after the verb; see `cove help`",
			  name);
	else if (near)
		cli_error(c, COVE_INVALID,
			  "no verb '%.60s'; did you mean 'cove %s'? See `cove help`", name, near);
	else
		cli_error(c, COVE_INVALID, "no verb '%.60s'; see `cove help`", name);
	return EXIT_USAGE;
}

int help_print(struct cli *c)
{
	struct buf b;
	int r;

	buf_init(&b, HELP_MAX);
	(void)buf_append_str(&b, "cove: a computer of its own for every AI agent\n\n"
				 "  cove run -- python3 -c 'print(6 * 7)'\n");
	for (size_t i = 0; i < SECTIONS; i++) {
		(void)buf_printf(&b, "\n%s\n", sections[i].title);
		for (const struct verb *const *v = sections[i].verbs; *v; v++)
			/* A long one stands on a line of its own. */
			(void)buf_printf(&b, "  %-40s%s%s\n", (*v)->synopsis,
					 strlen((*v)->synopsis) < 40 ? "" : INDENT, (*v)->summary);
	}
	(void)buf_append_str(&b, "\n`cove help VERB` shows flags and examples.\n");
	r = cli_out_buf(c, &b);
	buf_done(&b);
	return r;
}

/* In our place: signals and the exit status are that program's. */
static int become(struct cli *c, const char *program, char **argv)
{
	char path[512];
	struct err e;

	if (spawn_find_program(program, path, sizeof(path), &e) < 0)
		return cli_error(c, (enum cove_error_kind)e.kind, "%s", e.msg);
	execv(path, argv);
	return cli_error(c, COVE_INTERNAL, "start '%.120s': %s", path, strerror(errno));
}

/* Another program's verb: its options are what that says. */
int help_print_verb(struct cli *c, const struct verb *v)
{
	static char help[] = "--help";
	struct buf b;
	int r;

	buf_init(&b, HELP_MAX);
	(void)buf_printf(&b, "cove %s\n\n  %s\n\n%s\n", v->synopsis, v->summary, v->help);
	if (!v->program) {
		(void)buf_append_str(&b, "Flags\n");
		options_help(v->options, &b);
	}
	r = cli_out_buf(c, &b);
	buf_done(&b);
	return r || !v->program ? r
				: become(c, v->program,
					 (char *[]){(char *)(uintptr_t)v->program, help, NULL});
}

/* A wrong command line may be the place where --json stands: look for it as a word of its own. */
static bool asks_json(int argc, char **argv)
{
	for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (strcmp(argv[i], "--json") == 0)
			return true;
	return false;
}

static int check_count(struct cli *c, const struct verb *v, size_t first)
{
	if (c->o.arg_count < first + (size_t)v->args[0])
		return cli_usage(c, "too few arguments; usage: cove %s", v->synopsis);
	if (v->args[1] >= 0 && c->o.arg_count > first + (size_t)v->args[1])
		return cli_usage(c, "unexpected argument '%.60s'; usage: cove %s",
				 c->o.args[first + (size_t)v->args[1]], v->synopsis);
	return 0;
}

/* Its arguments begin with the first one. */
static int act(struct cli *c, const struct verb *v, size_t first)
{
	const struct verb *s = v->subs;
	int r;

	if (s) {
		while (s->name && strcmp(s->name, c->o.args[first]) != 0)
			s++;
		if (!s->name)
			return cli_usage(c, "no '%.60s' here; usage: cove %s", c->o.args[first],
					 v->synopsis);
		r = check_count(c, s, first + 1);
		return r ? r : act(c, s, first + 1);
	}
	if (v->here && cli_is_remote)
		return cli_error(c, COVE_UNSUPPORTED,
				 "`cove %s` works on the server's machine only: run it there, "
				 "without COVE_HOST",
				 v->subs || !v->synopsis ? v->name : c->verb->name);
	r = v->no_home ? 0 : cli_open(c);
	if (r == 0 && v->has_box)
		r = cli_find(c, &c->box);
	if (r)
		return r;
	if (v->list)
		return list_run(c, v->list);
	return v->run ? v->run(c) : cli_each(c, first, v->result, v->each);
}

static int run_program(struct cli *c, char **argv)
{
	argv[-1] = (char *)(uintptr_t)c->verb->program; /* the verb's word stood there */
	return become(c, c->verb->program, argv - 1);
}

static bool names_server(void)
{
	const char *host = getenv("COVE_HOST");

	return !cli_is_remote && host && *host;
}

static int run_verb(struct cli *c, int argc, char **argv)
{
	struct opt_spec spec = {.verb = c->verb->name,
				.allowed = c->verb->options,
				.command_after = (int)c->verb->command_at - 1};
	struct err e = {0};
	int r = options_parse(&c->o, &spec, argc, argv, &e);

	if (c->o.help)
		return help_print_verb(c, c->verb);
	if (r < 0) {
		c->o.json |= asks_json(argc, argv);
		cli_error(c, (enum cove_error_kind)e.kind, "%s", e.msg);
		return EXIT_USAGE;
	}
	r = check_count(c, c->verb, 0);
	if (r == 0 && c->o.tty && c->o.no_tty)
		r = cli_usage(c, "-t and -T exclude each other");
	/* Without stdout a verb that answers there is refused before it acts. */
	if (r == 0 && c->no_stdout &&
	    (c->verb->answers || c->o.background || c->o.json || options_gets_stdout(&c->o))) {
		c->o.json = false;
		return cli_error(c, COVE_INTERNAL,
				 "stdout is closed or cannot be written to, and `cove %s` answers "
				 "there: nothing was done",
				 c->verb->name);
	}
	return r ? r : act(c, c->verb, 0);
}

/* The verb of that name or, of one with verbs of its own, the one that the next word names: it may
 * stand behind flags (`cove image --json ls`), and is brought to the front. */
static const struct verb *find_verb(const char *name, char **words)
{
	const struct verb *v = verb_find(name, NULL);
	size_t i = 0;

	while (v && v->own && words[i] && words[i][0] == '-' && strcmp(words[i], "--") != 0)
		i++;
	if (!v || !words[i] || verb_find(name, words[i]) == v)
		return v;
	for (char *second = words[i]; i > 0; i--) {
		words[i] = words[i - 1];
		words[i - 1] = second;
	}
	return verb_find(name, words[0]);
}

int main(int argc, char **argv)
{
	struct cli c = {.log_fd = -1};
	int out_flags = fcntl(STDOUT_FILENO, F_GETFL), used = 2, status;

	log_init();
	if (names_server())
		return become(&c, "cove-remote", argv);
	c.no_stdout = out_flags < 0 || (out_flags & O_ACCMODE) == O_RDONLY;
	if (fcntl(STDIN_FILENO, F_GETFD) < 0 || out_flags < 0 || fcntl(STDERR_FILENO, F_GETFD) < 0)
		fd_fill_low();
	/* In stdout's place stands what cannot be written to: output that is lost is a failure, as
	 * with any program. */
	if (out_flags < 0) {
		close(STDOUT_FILENO);
		(void)open("/dev/null", O_RDONLY);
	}
	signals_at_start();
	if (argc > 0 && strcmp(path_base(argv[0]), verb_sbx.name) == 0) {
		used = 1;
		c.verb = find_verb(verb_sbx.name, argv + 1);
	} else if (argc < 2) {
		return help_print(&c);
	} else if (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0) {
		c.verb = &verb_help; /* these stand where a verb would */
	} else if (strcmp(argv[1], "-V") == 0 || strcmp(argv[1], "--version") == 0) {
		c.verb = &verb_version;
	} else {
		c.verb = find_verb(argv[1], argv + 2);
	}
	if (!c.verb) {
		c.o.json = asks_json(argc - 2, argv + 2);
		return help_unknown(&c, argv[1]);
	}
	used += strchr(c.verb->name, ' ') != NULL; /* a second word names it */
	status = c.verb->program && !(cli_is_remote && c.verb->here)
			 ? run_program(&c, argv + used)
			 : run_verb(&c, argc - used, argv + used);
	options_done(&c.o);
	cove_box_free(c.box);
	cove_free(c.cove);
	fd_close(&c.log_fd);
	return status;
}
