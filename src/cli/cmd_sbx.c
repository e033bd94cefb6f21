/*
 * cove sbx: the verbs of Docker's sbx, for programs that call it (harness-kernel's DockerSandbox).
 * Also what the program does when it is called sbx.
 *
 * A dialect: it translates. Each verb here ends in the call of cove.h that the
 * verb of Cove's own makes. What is different is what its callers rely on: a workspace stands at
 * the same absolute path inside as on the host, commands start there, exec starts a stopped box,
 * and the sentences say "already exists" and "not found".
 */
#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/str.h"
#include "cli/box.h"
#include "cli/command.h"
#include "cli/list.h"
#include "core/list.h"
#include "doctor/doctor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WALL	  "native"
#define WALL_TEXT "wall " WALL ": namespaces on this host's kernel, not a virtual machine"

/* Callers end an exec that takes too long with SIGTERM, and with SIGKILL a second later: what it
 * runs in the box has to be gone by then. */
enum { GRACE_MS = 500 };

/* What one box may show of the host, as text. */
enum { PATHS_MAX = (SPEC_MOUNT_MAX + 1) * (BOX_PATH_MAX + 4), PATHS_SHOWN = 256 };

/* A box that is not there, in the word that callers look for. */
static int translate(int r, const char *name, struct cove_error *err)
{
	if (r < 0 && err->kind == COVE_NOT_FOUND)
		snprintf(err->message, sizeof(err->message),
			 "sandbox '%.80s' not found (`cove sbx ls` shows all)", name);
	return r;
}

/* ---- version, diagnose, and what needs nothing ---- */

static int version(struct cli *c)
{
	struct cli_object o;
	struct json *j;
	char text[160];

	if (!c->o.json) {
		snprintf(text, sizeof(text), "sbx version: v%s (cove; %s)\n", cove_version(),
			 WALL_TEXT);
		return cli_out(c, text, strlen(text));
	}
	j = cli_object_begin(&o);
	json_kv_str(j, "version", cove_version());
	json_kv_str(j, "program", "cove");
	json_kv_str(j, "wall", WALL);
	json_kv_bool(j, "virtual_machine", false);
	return cli_object_end(c, &o);
}

static void put_check(struct json *j, const char *name, const char *status, const char *message,
		      const char *detail, const char *hint)
{
	json_object_begin(j);
	json_kv_str(j, "name", name);
	json_kv_str(j, "status", status);
	json_kv_str(j, "message", message);
	json_kv_str(j, "detail", detail);
	json_kv_str(j, "hint", hint);
	json_object_end(j);
}

/* The doctor's report in the form of `sbx diagnose --output json`. */
static int put_report(struct cli *c, const struct doctor_report *report)
{
	static const char *const words[] = {"pass", "skip", "warn", "fail"};
	static const char *const verdicts[] = {"pass", "skip", "fail"};
	struct cli_object o;
	struct json *j = cli_object_begin(&o);

	json_kv_str(j, "version", "1.0");
	json_key(j, "checks");
	json_array_begin(j);
	put_check(j, "Virtualization", "warn", "not used", WALL_TEXT, "");
	for (size_t i = 0; i < report->count; i++) {
		const struct doctor_check *k = &report->checks[i];

		if (k->group != DOCTOR_OTHERS)
			put_check(j, k->name, words[k->status], k->found, k->consequence,
				  k->remedy);
	}
	for (size_t i = 0; i < report->test_count; i++)
		put_check(j, report->tests[i].name, verdicts[report->tests[i].verdict],
			  report->tests[i].saw, "", "");
	json_array_end(j);
	return cli_object_end(c, &o);
}

static int diagnose(struct cli *c)
{
	bool json = c->o.json || (c->o.output && strcmp(c->o.output, "json") == 0);
	struct doctor_report *report;
	int r;

	if (c->o.output && !json && strcmp(c->o.output, "text") != 0)
		return cli_usage(c, "--output '%.60s': text or json", c->o.output);
	if (!json) {
		r = cli_out(c, WALL_TEXT "\n\n", strlen(WALL_TEXT) + 2);
		return r ? r : verb_doctor.run(c);
	}
	report = calloc(1, sizeof(*report));
	if (!report)
		return cli_error(c, COVE_FULL, "out of memory");
	doctor_run(NULL, !c->o.no_test, report);
	r = put_report(c, report);
	if (r == 0)
		r = !report->can_run ? EXIT_COVE : doctor_has_failed(report) ? 1 : 0;
	free(report);
	return r;
}

static int say(struct cli *c, const char *text)
{
	return cli_out(c, text, strlen(text));
}

static int login(struct cli *c)
{
	return say(c, "no login is needed: boxes are your own, on this machine\n");
}

static int daemon_start(struct cli *c)
{
	return say(c, "no daemon is needed: every box has a keeper of its own\n");
}

static int set_default(struct cli *c)
{
	static const char *const names[][2] = {
		{"allow-all", "open"}, {"balanced", "balanced"}, {"deny-all", "closed"}};
	const char *asked = c->o.args[1];
	struct cove_error err;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(names[i][0], asked) != 0)
			continue;
		if (cove_policy_set_default(c->cove, names[i][1], &err) < 0)
			return cli_fail(c, &err);
		return cli_done(c, asked, "default", c->events);
	}
	return cli_usage(c, "no policy '%.60s': allow-all, balanced or deny-all", asked);
}

/* ---- ls ---- */

struct sandbox {
	struct cove_box_info info;
	char paths[PATHS_SHOWN];
};

/* The paths with commas between, cut where they do not fit. */
static void join_paths(char *ret, size_t size, const struct buf *paths)
{
	const char *at = (const char *)buf_data(paths), *end = at + buf_len(paths);
	size_t len = 0;

	ret[0] = 0;
	for (; at < end && len < size; at += strlen(at) + 1)
		len += (size_t)snprintf(ret + len, size - len, "%s%s", len ? ", " : "", at);
	if (len >= size)
		memcpy(ret + size - 4, "...", 4);
}

static int get(struct cli *c, void *ret, struct cove_error *err)
{
	struct cove_box_info *infos;
	int count = cove_list(c->cove, &infos, err);
	struct sandbox *boxes;
	struct buf paths;

	if (count < 0)
		return count;
	boxes = calloc((size_t)count + 1, sizeof(*boxes));
	buf_init(&paths, PATHS_MAX);
	for (int i = 0; boxes && i < count; i++) {
		boxes[i].info = infos[i];
		/* One that went away meanwhile, or is damaged, has none. */
		buf_clear(&paths);
		(void)list_host_paths(c->cove, infos[i].name, &paths);
		join_paths(boxes[i].paths, sizeof(boxes[i].paths), &paths);
	}
	buf_done(&paths);
	free(infos);
	if (!boxes) {
		*err = (struct cove_error){.kind = COVE_FULL, .code = ENOMEM};
		snprintf(err->message, sizeof(err->message), "out of memory");
		return -ENOMEM;
	}
	*(struct sandbox **)ret = boxes;
	return count;
}

static void row(struct table *t, const void *item)
{
	const struct sandbox *b = item;

	table_cell(t, b->info.name);
	table_cell(t, "shell");
	table_cell(t, b->info.state);
	table_cell(t, ""); /* `cove port` publishes, and is a program of its own */
	table_cell(t, b->paths);
}

static void put_sandbox(struct json *j, const struct cove_box_info *b, const struct buf *paths)
{
	const char *at = (const char *)buf_data(paths), *end = at + buf_len(paths);

	json_object_begin(j);
	json_kv_str(j, "name", b->name);
	json_kv_str(j, "id", b->name);
	json_kv_str(j, "agent", "shell");
	json_kv_str(j, "status", b->state);
	json_key(j, "workspaces");
	json_array_begin(j);
	for (; at < end; at += strlen(at) + 1)
		json_str(j, at);
	json_array_end(j);
	json_object_end(j);
}

static int ls(struct cli *c)
{
	static const struct list_form form = {
		.titles = {"SANDBOX", "AGENT", "STATUS", "PORTS", "WORKSPACE"},
		.empty = "no boxes; make one with `cove sbx create shell PATH`",
		.size = sizeof(struct sandbox),
		.get = get,
		.row = row,
	};
	autofree struct cove_box_info *boxes = NULL;
	struct cove_error err;
	struct cli_object o;
	struct buf paths;
	struct json *j;
	int count;

	if (!c->o.json)
		return list_run(c, &form);
	count = cove_list(c->cove, &boxes, &err);
	if (count < 0)
		return cli_fail(c, &err);
	j = cli_object_begin(&o);
	json_key(j, "sandboxes");
	json_array_begin(j);
	buf_init(&paths, PATHS_MAX);
	for (int i = 0; i < count; i++) {
		buf_clear(&paths);
		if (list_host_paths(c->cove, boxes[i].name, &paths) != -ENOENT)
			put_sandbox(j, &boxes[i], &paths);
	}
	buf_done(&paths);
	json_array_end(j);
	return cli_object_end(c, &o);
}

/* ---- create ---- */

/* Keeps text for as long as the options live. */
static const char *keep(struct cli *c, char *text)
{
	if (text && options_add(&c->o.kept, text) == 0)
		return text;
	free(text);
	return NULL;
}

/* A path of the caller's as it stands on the host, read as text: a caller resolves its own names in
 * the same way. ret has BOX_PATH_MAX bytes. */
static bool make_absolute(char *ret, const char *given, size_t len)
{
	char path[BOX_PATH_MAX], here[BOX_PATH_MAX];
	int n;

	if (given[0] == '/')
		here[0] = 0;
	else if (!getcwd(here, sizeof(here)))
		return false;
	n = snprintf(path, sizeof(path), "%s%s%.*s", here, *here ? "/" : "", (int)len, given);
	return n < (int)sizeof(path) && path_normalize(ret, BOX_PATH_MAX, path);
}

/* PATH[:ro] becomes the mount PATH:PATH[:ro]; commands start in the first. 0 or an exit status. */
static int add_workspace(struct cli *c, const char *given)
{
	size_t len = strlen(given);
	bool ro = len > 3 && strcmp(given + len - 3, ":ro") == 0;
	char path[BOX_PATH_MAX], *mount = NULL;
	const char *text;
	struct stat st;

	len -= ro ? 3 : 0;
	if (len == 0)
		return cli_usage(c, "a workspace's path is empty");
	if (len >= BOX_PATH_MAX || !make_absolute(path, given, len))
		return cli_usage(c, "'%.60s' is too long for a path", given);
	if (strpbrk(path, ":,"))
		return cli_usage(c,
				 "'%.200s': a workspace's path can have neither ':' nor ',' in it; "
				 "after it only ':ro' may stand",
				 given);
	if (stat(path, &st) < 0)
		return cli_error(c, COVE_NOT_FOUND, "workspace '%.300s': %s (make it first)", path,
				 strerror(errno));
	/* Of the others a single file is of use: one that can only be read. */
	if (!c->o.box.cwd && !S_ISDIR(st.st_mode))
		return cli_error(c, COVE_INVALID, "workspace '%.300s' is not a directory", path);
	if (asprintf(&mount, "%s:%s%s", path, path, ro ? ":ro" : "") < 0)
		mount = NULL;
	text = keep(c, mount);
	if (!text || options_add(&c->o.mounts, text) < 0)
		return cli_error(c, COVE_FULL, "out of memory");
	if (!c->o.box.cwd)
		c->o.box.cwd = keep(c, strdup(path));
	return c->o.box.cwd ? 0 : cli_error(c, COVE_FULL, "out of memory");
}

/* Without --name it is "shell-" and the workspace's own name, as far as names can have that. */
static bool set_name(struct cli *c)
{
	char name[BOX_NAME_MAX + 1];
	size_t len;

	if (c->o.box.name)
		return true;
	snprintf(name, sizeof(name), "shell-%s", path_base(c->o.box.cwd));
	for (char *at = name; *at; at++) {
		if (*at >= 'A' && *at <= 'Z')
			*at = (char)(*at - 'A' + 'a');
		else if (!(*at >= 'a' && *at <= 'z') && !(*at >= '0' && *at <= '9'))
			*at = '-';
	}
	for (len = strlen(name); name[len - 1] == '-'; len--)
		name[len - 1] = 0;
	c->o.box.name = keep(c, strdup(name));
	return c->o.box.name != NULL;
}

/* An image keeps /root closed to its user, who could not go through it to a workspace below. The
 * box's own /root is opened, for passing only; nothing of the host is touched. A box without a root
 * inside has no need. */
static void open_root(struct cli *c)
{
	static const char *const argv[] = {"chmod", "o+x", "/root", NULL};
	struct cove_command command = {
		.size = sizeof(command), .argv = argv, .user = "root", .cwd = "/"};
	struct cove_result result = {0};
	struct cove_box *box = NULL;

	if (cove_find(c->cove, c->o.box.name, &box, NULL) == 0 &&
	    cove_run(box, &command, &result, NULL) == 0 && result.exit_code != 0)
		cli_note("the box's user cannot reach what is below /root: chmod o+x /root failed "
			 "in the box");
	cove_result_free(&result);
	cove_box_free(box);
}

/* By length: a directory that holds another is shown before it, and does not hide it. */
static int by_length(const void *a, const void *b)
{
	size_t one = strlen(*(const char *const *)a), other = strlen(*(const char *const *)b);

	return (one > other) - (one < other);
}

static int create_shell(struct cli *c)
{
	bool below = false, itself = false;
	int r;

	for (size_t i = 1; i < c->o.arg_count; i++) {
		r = add_workspace(c, c->o.args[i]);
		if (r)
			return r;
		below |= str_starts(c->o.mounts.items[i - 1], "/root/");
		itself |= str_starts(c->o.mounts.items[i - 1], "/root:");
	}
	if (!set_name(c))
		return cli_error(c, COVE_FULL, "out of memory");
	qsort(c->o.mounts.items, c->o.mounts.count, sizeof(*c->o.mounts.items), by_length);
	r = box_make(c, false);
	if (r == 0 && below && !itself)
		open_root(c);
	return r;
}

/* ---- exec, stop, rm ---- */

/* A stopped box is started first. */
static int find_running(struct cli *c, const char *name, struct cove_error *err)
{
	int r = cove_find(c->cove, name, &c->box, err);

	if (r < 0 && err->kind == COVE_CONFLICT && err->code == ENOTCONN) {
		r = cove_start(c->cove, name, err);
		if (r == 0)
			r = cove_find(c->cove, name, &c->box, err);
	}
	return translate(r, name, err);
}

static int exec(struct cli *c)
{
	struct cove_command command = cli_command(&c->o);
	struct cove_error err;

	if (find_running(c, c->o.args[0], &err) < 0)
		return cli_fail(c, &err);
	/* After BOX all is the command, as Docker has it, also what looks like a flag: a caller may
	 * pass on somebody else's words. */
	command.argv = c->o.args + 1;
	if (strcmp(command.argv[0], "--") == 0 && command.argv[1])
		command.argv++;
	command.grace_ms = GRACE_MS;
	return c->o.background ? command_background(c, c->box, &command)
			       : command_run(c, c->box, &command, 0);
}

static int stop(struct cli *c, const char *name, struct cove_error *err)
{
	return translate(cove_stop(c->cove, name, "sbx stop", COVE_GRACE_MS, err), name, err);
}

/* What is not there is an error also with --force: callers tell it from others by its words. */
static int remove_box(struct cli *c, const char *name, struct cove_error *err)
{
	int r = cove_remove(c->cove, name, false, err);

	if (r < 0 && err->kind == COVE_CONFLICT && c->o.force)
		r = cove_remove(c->cove, name, true, err);
	return translate(r, name, err);
}

/* ---- the table ---- */

#define NOTHING                                  \
	(const enum opt_id[])                    \
	{                                        \
		OPT_SBX_DEBUG, OPT_HELP, OPT_END \
	}

static const struct verb *const verbs[] = {
	&(const struct verb){
		.name = "sbx version",
		.synopsis = "sbx version [--json]",
		.summary = "the version, and what the wall is",
		.help = "One line, \"sbx version: vN\", and in brackets whose and which wall.\n",
		.options = (const enum opt_id[]){OPT_JSON, OPT_SBX_DEBUG, OPT_HELP, OPT_END},
		.no_home = true,
		.run = version,
	},
	&(const struct verb){
		.name = "sbx diagnose",
		.synopsis = "sbx diagnose [--output text|json]",
		.summary = "`cove doctor`, and what the wall is",
		.help = "As JSON: {\"version\", \"checks\": [{\"name\", \"status\", \"message\",\n"
			"\"detail\", \"hint\"}]}; a status is pass, warn, fail or skip. The\n"
			"check \"Virtualization\" is always warn: there is none. Exit status as "
			"of\n"
			"doctor.\n",
		.options = (const enum opt_id[]){OPT_SBX_OUTPUT, OPT_NO_TEST, OPT_JSON,
						 OPT_SBX_DEBUG, OPT_HELP, OPT_END},
		.no_home = true,
		.run = diagnose,
	},
	&(const struct verb){
		.name = "sbx login",
		.synopsis = "sbx login",
		.summary = "nothing: no login is needed",
		.help = "",
		.options = NOTHING,
		.no_home = true,
		.run = login,
	},
	&(const struct verb){
		.name = "sbx daemon",
		.synopsis = "sbx daemon start",
		.summary = "nothing: no daemon is needed",
		.help = "",
		.options = (const enum opt_id[]){OPT_SBX_DETACH, OPT_SBX_DEBUG, OPT_HELP, OPT_END},
		.args = {1, -1},
		.subs = (const struct verb[]){{.name = "start",
					       .synopsis = "sbx daemon start",
					       .no_home = true,
					       .run = daemon_start},
					      {0}},
	},
	&(const struct verb){
		.name = "sbx policy",
		.synopsis = "sbx policy set-default allow-all|balanced|deny-all",
		.summary = "the network of boxes made from now on",
		.help = "The presets open, balanced and closed of `cove policy set-default`.\n",
		.options = (const enum opt_id[]){OPT_JSON, OPT_SBX_DEBUG, OPT_HELP, OPT_END},
		.args = {1, -1},
		.subs = (const struct verb[]){{.name = "set-default",
					       .synopsis = "sbx policy set-default POLICY",
					       .args = {1, 1},
					       .run = set_default},
					      {.name = "init",
					       .synopsis = "sbx policy init POLICY",
					       .args = {1, 1},
					       .run = set_default},
					      {0}},
	},
	&(const struct verb){
		.name = "sbx ls",
		.synopsis = "sbx ls [-q] [--json]",
		.summary = "list boxes",
		.help = "All of them, also those that `cove create` made. As JSON:\n"
			"{\"sandboxes\": [{\"name\", \"id\", \"agent\", \"status\", "
			"\"workspaces\"}]}\n",
		.options = (const enum opt_id[]){OPT_QUIET, OPT_JSON, OPT_SBX_DEBUG, OPT_HELP,
						 OPT_END},
		.run = ls,
	},
	&(const struct verb){
		.name = "sbx create",
		.synopsis = "sbx create shell [FLAGS] PATH[:ro]...",
		.summary = "make a box with these directories; print its name",
		.help = "Each stands at the same absolute path inside as on the host; commands\n"
			"start in the first. Without --name it is called shell- and the first "
			"one's\n"
			"name. Names are Cove's: lower-case letters, digits, dashes, at most 63.\n"
			"\n"
			"Examples\n"
			"  cove sbx create shell --name dev --cpus 2 --memory 8g ~/project\n"
			"  cove sbx create shell . /srv/docs:ro\n",
		.options =
			(const enum opt_id[]){OPT_NAME, OPT_SBX_TEMPLATE, OPT_CPUS, OPT_SBX_MEMORY,
					      OPT_QUIET, OPT_SBX_DEBUG, OPT_HELP, OPT_END},
		.args = {1, -1},
		.answers = true,
		.subs = (const struct verb[]){{.name = "shell",
					       .synopsis = "sbx create shell [FLAGS] PATH[:ro]...",
					       .args = {1, -1},
					       .run = create_shell},
					      {0}},
	},
	&(const struct verb){
		.name = "sbx exec",
		.synopsis = "sbx exec [FLAGS] BOX CMD [ARG...]",
		.summary = "one command in a box, which is started if it is stopped",
		.help = "As `cove exec`, but a terminal is given with -t only. Exit status: the\n"
			"command's own, and `cove help exec` has the others.\n"
			"\n"
			"Examples\n"
			"  cove sbx exec -i -w ~/project -e CI=1 dev bash -lc 'make test'\n"
			"  cove sbx exec -it dev bash\n",
		.options = (const enum opt_id[]){OPT_INTERACTIVE, OPT_TTY, OPT_ENV, OPT_WORKDIR,
						 OPT_USER, OPT_SBX_DETACH, OPT_SBX_DEBUG, OPT_HELP,
						 OPT_END},
		.command_at = 1,
		.args = {2, -1},
		.run = exec,
	},
	&(const struct verb){
		.name = "sbx stop",
		.synopsis = "sbx stop BOX...",
		.summary = "end its processes, keep its files",
		.help = "",
		.options = NOTHING,
		.args = {1, -1},
		.each = stop,
		.result = "stopped",
	},
	&(const struct verb){
		.name = "sbx rm",
		.synopsis = "sbx rm [--force] BOX...",
		.summary = "remove a box; the host's directories stay",
		.help = "A running box needs --force. One that is not there is an error either\n"
			"way: \"not found\".\n",
		.options = (const enum opt_id[]){OPT_SBX_FORCE, OPT_SBX_DEBUG, OPT_HELP, OPT_END},
		.args = {1, -1},
		.each = remove_box,
		.result = "removed",
	},
	NULL,
};

static int run(struct cli *c)
{
	if (c->o.arg_count == 0)
		return help_print_verb(c, c->verb);
	return cli_usage(c, "sbx has no verb '%.60s' here", c->o.args[0]);
}

const struct verb verb_sbx = {
	.name = "sbx",
	.here = true,
	.synopsis = "sbx VERB ...",
	.summary = "Docker's sbx verbs, for its callers",
	.help = "version                           which Cove, and which wall\n"
		"diagnose                          what this host can do\n"
		"login, daemon start               nothing: neither is needed\n"
		"policy set-default POLICY         allow-all, balanced or deny-all\n"
		"ls [-q] [--json]                  boxes\n"
		"create shell [--name N] PATH...   make one, the paths inside as outside\n"
		"exec [-i] [-w DIR] BOX CMD...     a command in one\n"
		"stop BOX..., rm [--force] BOX...  end it, remove it\n"
		"\n"
		"`cove help sbx VERB` shows flags. Called sbx (ln -s cove sbx) the program takes\n"
		"these verbs alone, so that what calls Docker's sbx can be given this one. The\n"
		"boxes are Cove's: namespaces on this host's kernel, not virtual machines.\n"
		"\n"
		"Examples\n"
		"  cove sbx create shell --name dev ~/project\n"
		"  cove sbx exec -i -w ~/project dev bash -lc 'make test'\n"
		"  cove sbx rm --force dev\n",
	.options = (const enum opt_id[]){OPT_HELP, OPT_END},
	.command_at = 1,
	.args = {0, -1},
	.no_home = true,
	.own = verbs,
	.run = run,
};
