/*
 * The options of all verbs: one table, one parser.
 *
 * A verb lists which options it takes; the parser, `cove help VERB` and the tests read the same
 * table. Accepted forms: --opt VALUE, --opt=VALUE, -o VALUE, -oVALUE, -abc for flags, and `--`
 * after which everything is an argument. Verbs that end in a command of the user's own (run, exec,
 * sh) stop looking for options where that command begins, so that it needs no quoting.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "cli/options_rows.h"
#include "cove.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Id, name, letter or 0, kind (options.c), where in struct options, the value's name, help. */
/* clang-format off */
#define OPTIONS(X) \
	X(NAME, "name", 0, TEXT, box.name, "NAME", \
		"name of the box (lower-case letters, digits, dashes); default: a fresh one") \
	X(IMAGE, "image", 0, TEXT, box.image, "NAME", \
		"what the box starts from; default 'base'; 'host': this machine's own " \
		"programs") \
	X(ENTRYPOINT, "entrypoint", 0, ANY, entrypoint, "PROGRAM", \
		"run this instead of what the image says; '': the given words themselves") \
	X(WORKSPACE, "workspace", 0, TEXT, box.workspace, "NAME|DIR", \
		"kept workspace NAME, or a host directory (with a slash), at /workspace") \
	X(MOUNT, "mount", 0, LIST, mounts, "SRC:DST[:ro][,env=NAME]", \
		"show SRC of the host at DST; a relative SRC is in the workspace; repeatable") \
	X(ENV, "env", 'e', ENV, env, "NAME[=VALUE]", \
		"set a variable; without VALUE, your own; repeatable") \
	X(WORKDIR, "workdir", 'w', TEXT, box.cwd, "DIR", "start in this directory") \
	X(USER, "user", 'u', TEXT, box.user, "USER", "run as this user: a name or UID[:GID]") \
	X(TIMEOUT, "timeout", 0, MS, box.timeout_ms, "TIME", \
		"end the command after TIME (90, 1.5s, 250ms, 2h, 1d; 0: never); status 124") \
	X(WAIT_TIMEOUT, "timeout", 0, MS, wait_ms, "TIME", \
		"wait no longer than TIME (90, 1.5s, 10m; 0: for ever); exit status 124") \
	X(LABEL, "label", 0, LIST, labels, "NAME=VALUE", "a note kept with the box; repeatable") \
	X(NET, "net", 0, TEXT, box.net, "POLICY", \
		"what may leave: closed, balanced (fetch but not send), open, or a file; " \
		"default 'balanced', see `cove help policy`") \
	X(ALLOW, "allow", 0, LIST, allow, "HOST[:PORT]", \
		"also let it reach this host (*.example.org, 10.0.0.0/8); repeatable") \
	X(DENY, "deny", 0, LIST, deny, "HOST[:PORT]", \
		"never let it reach this host; wins over everything; repeatable") \
	X(TTY, "tty", 't', FLAG, tty, NULL, "give the command a terminal") \
	X(NO_TTY, "no-tty", 'T', FLAG, no_tty, NULL, "do not, even where there is one") \
	X(INTERACTIVE, "interactive", 'i', FLAG, interactive, NULL, \
		"pass stdin; also when it is a terminal") \
	X(BACKGROUND, "background", 'd', FLAG, background, NULL, "do not wait; print the exec id") \
	X(PREFIX, "prefix", 0, TEXT, prefix, "PREFIX", \
		"first part of the box's name; the same id under another prefix is another " \
		"box") \
	X(PERSISTENCE, "persistence", 0, TEXT, box.persistence, "workspace|box", \
		"what close keeps: only the workspace (default), or the whole box") \
	X(DELETE, "delete", 0, FLAG, remove, NULL, \
		"remove the box whatever its persistence; the workspace stays") \
	X(FOLLOW, "follow", 'f', FLAG, follow, NULL, \
		"stay until the command ends and print as it comes") \
	X(EXEC, "exec", 0, ID, exec_id, "ID", "only this command (ids: cove ps BOX)") \
	X(FROM, "from", 0, FROM, out_from, "BYTE[:BYTE]", \
		"start at this byte of stdout (and of stderr)") \
	X(SIGNAL, "signal", 's', SIGNAL, signal, "SIGNAL", \
		"name or number; default TERM; KILL ends the whole tree") \
	X(GRACE, "grace", 0, MS, grace_ms, "TIME", \
		"how long SIGTERM has before SIGKILL; default 2s; 0: SIGKILL at once") \
	X(FORCE, "force", 'f', FLAG, force, NULL, \
		"also a running box; a box that is not there is fine") \
	X(COPY_USER, "user", 'u', TEXT, box.user, "USER", "as this user; files put are theirs") \
	X(IMAGE_USER, "user", 'u', TEXT, image_user, "USER", \
		"who commands run as; default: the image's uid 1000, else root") \
	X(WATCH, "watch", 0, FLAG, watch, NULL, \
		"go on: redraw every second on a terminal, else print lines as they come") \
	X(ONCE, "once", 0, FLAG, once, NULL, "for the next connection only") \
	X(FOR, "for", 0, MS, for_ms, "TIME", "only for so long (30s, 10m, 2h)") \
	X(SECRET_FILE, "file", 0, TEXT, secret_file, "PATH", \
		"read the value from this file whenever it is needed") \
	X(SECRET_COMMAND, "command", 0, TEXT, secret_command, "LINE", \
		"run this by `sh -c` whenever it is needed, and take its output") \
	X(CACHE, "cache", 0, MS, cache_ms, "TIME", "keep a command's output so long (15m)") \
	X(TAIL, "follow", 'f', FLAG, follow, NULL, "print rows as they come, until Ctrl-C") \
	X(DENIED, "denied", 0, FLAG, denied, NULL, "only what was refused") \
	X(SINCE, "since", 0, MS, since_ms, "TIME", "only rows that are not older (10m, 1h, 7d)") \
	X(BEFORE, "before", 0, MS, before_ms, "TIME", \
		"of all boxes that are gone: what was last written longer ago (30d)") \
	X(PORT_BACKGROUND, "background", 'd', FLAG, background, NULL, "go on until the box ends") \
	X(PORT_RM, "rm", 0, FLAG, remove, NULL, "end what -d made: these LOCAL ports, or all") \
	X(ADDRESS, "address", 0, TEXT, address, "ADDRESS", \
		"listen on this address of the host; default 127.0.0.1, nothing else") \
	X(PTRACE, "ptrace", 0, FLAG, box.ptrace, NULL, "let gdb, strace, leak checkers work") \
	X(TRUST_DIR, "trust-dir", 0, FLAG, box.trust_dir, NULL, \
		"let it write .git/config, .git/hooks, .vscode and such of host directories") \
	X(WALL, "wall", 0, TEXT, box.wall, "NAME", \
		"what separates it from the host (`cove wall ls`), or auto; default native") \
	X(QUIET, "quiet", 'q', FLAG, quiet, NULL, "names (ps: ids) only, one per line") \
	X(NO_TEST, "no-test", 0, FLAG, no_test, NULL, "start no box to try things in") \
	X(JSON, "json", 0, FLAG, json, NULL, "print JSON; errors too") \
	X(VERBOSE, "verbose", 'v', FLAG, verbose, NULL, \
		"say what happens, as [cove] lines on stderr") \
	X(LOG_FILE, "log-file", 0, TEXT, log_file, "FILE", \
		"append the same events as JSON lines; also $COVE_LOG") \
	X(HELP, "help", 'h', FLAG, help, NULL, "show this help") \
	OPTIONS_ROWS(X)
/* clang-format on */

enum opt_id {
	OPT_END = 0, /* ends a verb's list */
#define OPT_ID(id, ...) OPT_##id,
	OPTIONS(OPT_ID)
#undef OPT_ID
		OPT_COUNT
};

/* Lists that many verbs share; each is used inside an array of enum opt_id. */
#define OPTS_COMMON OPT_JSON, OPT_VERBOSE, OPT_LOG_FILE, OPT_HELP
#define OPTS_BOX                                                                              \
	OPT_IMAGE, OPT_WORKSPACE, OPT_MOUNT, OPT_ENV, OPT_WORKDIR, OPT_USER, OPT_TIMEOUT,     \
		OPT_LABEL, OPT_NET, OPT_ALLOW, OPT_DENY, OPT_TRUST_DIR, OPT_COPY, OPT_PTRACE, \
		OPT_WALL, OPT_CTL, OPT_ON_START, OPT_RESTART
/* Last in a verb's list: they have a heading of their own in its help. */
#define OPTS_LIMITS                                                                              \
	OPT_MEM, OPT_CPUS, OPT_PIDS, OPT_DISK, OPT_FILES, OPT_IO, OPT_TTL, OPT_IDLE, OPT_EXPIRE, \
		OPT_NET_BYTES, OPT_NET_CONNS, OPT_STORAGE, OPT_BEST_EFFORT, OPT_STRICT
#define OPTS_FILES   OPT_IN, OPT_OUT
#define OPTS_COMMAND OPT_ENV, OPT_WORKDIR, OPT_USER, OPT_TIMEOUT

/* NULL-terminated once it has an item. */
struct opt_list {
	const char **items; /* owned; the strings are borrowed from argv or kept in options.kept */
	size_t count;
};

struct opt_files {
	struct cove_transfer *items; /* owned; strings in options.kept; NULL is stdin, stdout */
	size_t count;
};

struct options {
	/* Without what comes as a list; a limit of UINT64_MAX is none. cli_box_options. */
	struct cove_box_options box;
	const char *log_file, *shell, *prefix, *image_user, *token, *entrypoint;
	const char *secret_file, *secret_command, *address, *output;
	const char *format, *image_name, *platform, *ca, *key_quotas, *glob;
	const char *events, *only_box, *only_label;
	struct opt_list mounts, env, labels, allow, deny, kept;
	struct opt_list build_tags, build_args, build_secrets, build_packages, key_scopes;
	struct opt_files inputs, outputs;
	struct options_build build;
	uint64_t exec_id, grace_ms, for_ms, since_ms, before_ms, wait_ms, max_output, cache_ms,
		stall_ms, max_size;
	uint64_t out_from, err_from, pool_bytes, keep, max_age_ms, count, context;
	int signal;
	bool tty, no_tty, interactive, background, remove, follow, force, quiet, watch;
	bool json, login, merge, verbose, help, no_test, once, denied, insecure;
	bool stat, text, workspace_only, theirs, ours, no_freeze, keep_workspace, foreign;
	bool all, dry_run, boxes, deep, with_secrets, setup_storage, remove_storage, no_rule;
	bool regex, ignore_case, recursive, binary;
	bool given[OPT_COUNT];
	const char **args; /* owned array, borrowed strings, NULL-terminated */
	size_t arg_count;
	size_t plain_count; /* of those, before a `--` */
};

struct opt_spec {
	const char *verb;	    /* for messages */
	const enum opt_id *allowed; /* ends with OPT_END */
	/* How many arguments may stand before the user's own command, or -1: there is none and
	 * options may stand anywhere. */
	int command_after;
};

/* argv without program and verb. The error is a sentence that names the option, the closest match
 * and where to read more. What was understood before an error is in *ret either way. */
int options_parse(struct options *ret, const struct opt_spec *spec, int argc, char **argv,
		  struct err *e);
void options_done(struct options *o);

/* One item more, and the NULL after it. 0 or -ENOMEM. */
int options_add(struct opt_list *l, const char *item);

/* Is one of the inputs stdin, or one of the outputs stdout? */
bool options_puts_stdin(const struct options *o);
bool options_gets_stdout(const struct options *o);
/* Was any of OPTS_LIMITS given? */
bool options_has_limits(const struct options *o);

/* Appends the help lines of a verb's options. */
void options_help(const enum opt_id *allowed, struct buf *out);
