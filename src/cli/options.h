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

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum opt_id {
	OPT_END = 0, /* ends a verb's list */
	OPT_NAME,
	OPT_IMAGE,
	OPT_WORKSPACE,
	OPT_MOUNT,
	OPT_ENV,
	OPT_WORKDIR,
	OPT_USER,
	OPT_TIMEOUT,
	OPT_LABEL,
	OPT_NET,
	OPT_ALLOW,
	OPT_DENY,
	OPT_TTY,
	OPT_NO_TTY,
	OPT_INTERACTIVE,
	OPT_BACKGROUND,
	OPT_TOKEN,
	OPT_SHELL,
	OPT_PREFIX,
	OPT_PERSISTENCE,
	OPT_DELETE,
	OPT_FOLLOW,
	OPT_EXEC,
	OPT_FROM,
	OPT_SIGNAL,
	OPT_GRACE,
	OPT_FORCE,
	OPT_IMAGE_USER,
	OPT_WATCH,
	OPT_ONCE,
	OPT_FOR,
	OPT_SECRET_FILE,
	OPT_SECRET_COMMAND,
	OPT_TAIL,
	OPT_DENIED,
	OPT_SINCE,
	OPT_BEFORE,
	OPT_ADDRESS,
	OPT_MEM,
	OPT_CPUS,
	OPT_PIDS,
	OPT_DISK,
	OPT_FILES,
	OPT_IO,
	OPT_TTL,
	OPT_IDLE,
	OPT_EXPIRE,
	OPT_NET_BYTES,
	OPT_NET_CONNS,
	OPT_STORAGE,
	OPT_BEST_EFFORT,
	OPT_STRICT,
	OPT_WALL,
	OPT_NO_TEST,
	OPT_QUIET,
	OPT_JSON,
	OPT_VERBOSE,
	OPT_LOG_FILE,
	OPT_HELP,
	OPT_COUNT
};

/* Lists that many verbs share; each is used inside an array of enum opt_id. */
#define OPTS_COMMON OPT_JSON, OPT_VERBOSE, OPT_LOG_FILE, OPT_HELP
#define OPTS_BOX                                                                          \
	OPT_IMAGE, OPT_WORKSPACE, OPT_MOUNT, OPT_ENV, OPT_WORKDIR, OPT_USER, OPT_TIMEOUT, \
		OPT_LABEL, OPT_NET, OPT_ALLOW, OPT_DENY, OPT_WALL
/* Last in a verb's list: they have a heading of their own in its help. */
#define OPTS_LIMITS                                                                              \
	OPT_MEM, OPT_CPUS, OPT_PIDS, OPT_DISK, OPT_FILES, OPT_IO, OPT_TTL, OPT_IDLE, OPT_EXPIRE, \
		OPT_NET_BYTES, OPT_NET_CONNS, OPT_STORAGE, OPT_BEST_EFFORT, OPT_STRICT
#define OPTS_COMMAND OPT_ENV, OPT_WORKDIR, OPT_USER, OPT_TIMEOUT

/* NULL-terminated once it has an item. */
struct opt_list {
	const char **items; /* owned; the strings are borrowed from argv or kept in options.kept */
	size_t count;
};

struct options {
	const char *name, *image, *workspace, *workdir, *user, *log_file, *net;
	const char *shell, *prefix, *persistence, *image_user;
	const char *secret_file, *secret_command, *address;
	struct opt_list mounts, env, labels, allow, deny, kept;
	uint64_t timeout_ms, exec_id, grace_ms, for_ms, since_ms, before_ms;
	uint64_t out_from, err_from;
	/* Limits: 0 not given, UINT64_MAX none. */
	uint64_t mem_bytes, cpu_milli, pids, disk_bytes, files, io_bytes;
	uint64_t ttl_ms, idle_ms, net_bytes, net_conns;
	const char *expire, *storage, *wall, *token;
	bool best_effort, strict, watch;
	int signal;
	bool tty, no_tty, interactive, background, remove, follow, force, quiet;
	bool json, verbose, help, no_test, once, denied;
	bool has_exec, has_from, has_grace, has_timeout, has_for, has_since, has_before;
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

/* Was any of OPTS_LIMITS given? */
bool options_has_limits(const struct options *o);

/* Appends the help lines of a verb's options. */
void options_help(const enum opt_id *allowed, struct buf *out);

/* The candidate nearest to a mistyped word, or NULL if none is near. The list ends with NULL. */
const char *options_closest(const char *word, const char *const *candidates);
