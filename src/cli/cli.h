/*
 * What the verbs of the command line share: the verb table's row, the context each verb gets, and
 * the one way to fail.
 *
 * A verb is one file, cmd_<verb>.c, that defines a struct verb; main.c lists them. A handler gets
 * parsed options and returns the exit status of the program.
 *
 *	0	fine, or the command's own status (run, exec, sh, shell, attach, wait)
 *	2	the command line is wrong
 *	124	the command timed out
 *	125	Cove itself could not
 *	126	the command cannot be executed
 *	127	there is no such command
 *	128+N	the command ended by signal N; 137 where it ran out of memory
 */
#pragma once

#include "base/buf.h"
#include "base/json.h"
#include "cli/options.h"
#include "cove.h"

#include <stdbool.h>

enum { EXIT_USAGE = 2, EXIT_COVE = 125, EXIT_SIGNAL = 128 };

struct cli {
	const struct verb *verb;
	struct options o;
	struct cove *cove;    /* owned; NULL until cli_open */
	struct cove_box *box; /* owned; NULL until cli_find */
	int log_fd;	      /* owned, -1 without --log-file */
	unsigned events;      /* how many came so far */
	bool no_stdout;	      /* it was closed, or opened for reading */
};

struct list_form;

struct verb {
	const char *name;
	const char *synopsis; /* without "cove "; one line */
	const char *summary;  /* one line, for the list of verbs */
	const char *help;     /* how it works and examples, for `cove help VERB` */
	const enum opt_id *options;
	size_t command_at; /* one more than command_after of struct opt_spec; 0: it has none */
	int args[2];	   /* at least, at most; -1: any number */
	bool no_home;	   /* without cli_open before it */
	/* cli.box is the one that the first argument names, running. A verb that looks at its
	 * other arguments, or at stdin, before that calls cli_find itself. */
	bool has_box;
	bool answers; /* does something and says on stdout what */
	bool here;    /* of this machine: it cannot be asked of a server (COVE_HOST) */
	/* Its options and arguments are those of this program of ours, as they are. */
	const char *program;
	/* What it does, one of: */
	int (*run)(struct cli *c);
	const struct list_form *list;					      /* list_run */
	int (*each)(struct cli *c, const char *name, struct cove_error *err); /* cli_each, and */
	const char *result;
	/* The first argument is one of these; the last has no name. Of them only name, synopsis,
	 * args (without that name) and what they do are set. */
	const struct verb *subs;
	/* Verbs whose names begin with this one's: "sbx create". Each has options and help of its
	 * own, and its arguments begin after that name; the last is NULL. */
	const struct verb *const *own;
};

extern const struct verb verb_run, verb_create, verb_open, verb_close, verb_exec, verb_sh,
	verb_shell, verb_attach, verb_ls, verb_inspect, verb_logs, verb_cp, verb_ps, verb_kill,
	verb_stop, verb_start, verb_rm, verb_stats, verb_pause, verb_resume, verb_workspace,
	verb_pool, verb_wall, verb_image, verb_policy, verb_allow, verb_deny, verb_asks,
	verb_answer, verb_secret, verb_audit, verb_port, verb_ports, verb_wait, verb_shells,
	verb_doctor, verb_sbx, verb_version, verb_help, verb_diff, verb_merge, verb_system,
	verb_snapshot, verb_rollback, verb_fork, verb_key, verb_serve, verb_set, verb_read,
	verb_edit, verb_glob, verb_grep, verb_watch, verb_webhook;

/* Of `cove image`, in files of their own beside cmd_image.c. */
extern const struct verb verb_image_inspect, verb_image_history, verb_image_tag, verb_image_pull,
	verb_image_gc, verb_image_import, verb_image_export, verb_image_build, verb_image_save;

/* Of `cove system`, in a file of its own. */
extern const struct verb verb_system_reap;

/* Of `cove snapshot`. */
extern const struct verb verb_snapshot_export, verb_snapshot_import;

/* This is cove-remote, which `cove` becomes where COVE_HOST names a server: the same verbs, and
 * src/remote in place of src/core behind cove.h. */
extern const bool cli_is_remote;

/* The verb with that name, or NULL. Where it has verbs of its own and next names one, that one;
 * next may be NULL. */
const struct verb *verb_find(const char *name, const char *next);
/* Prints the list of verbs, or one verb's help. */
int help_print(struct cli *c);
int help_print_verb(struct cli *c, const struct verb *v);
/* "no verb 'x'", with the closest one. */
int help_unknown(struct cli *c, const char *name);

/* Connects to the state directory; idempotent. 0, or an exit status after the error was
 * printed. */
int cli_open(struct cli *c);

/* Print one line `cove: ...` on stderr (and the error object on stdout with --json); return the
 * exit status that belongs to the kind. User text in the message cannot break the line. */
int cli_fail(struct cli *c, const struct cove_error *err);
/* The same for what is wrong with the world and not with the command line: never EXIT_USAGE. */
int cli_broken(struct cli *c, const struct cove_error *err);
/* Of an import: a name (may be NULL) that is none is the command line's, all else the world's. */
int cli_not_imported(struct cli *c, const char *name, const struct cove_error *err);
int cli_error(struct cli *c, enum cove_error_kind kind, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* A wrong command line: the same, with a pointer to the verb's help. */
int cli_usage(struct cli *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A line `cove: ...` on stderr that is no failure. */
void cli_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Writes to stdout. 0, or an exit status: quietly 128+SIGPIPE where the reader left. */
int cli_out(struct cli *c, const void *p, size_t n);
int cli_out_buf(struct cli *c, const struct buf *b);
/* The same, indented for reading; one line with --json. Frees nothing. */
int cli_out_json(struct cli *c, const char *json);

/* One JSON object on stdout: write its members to the writer that begin returns. The end prints it
 * and returns the exit status. */
struct cli_object {
	struct buf text;
	struct json j;
};
struct json *cli_object_begin(struct cli_object *o);
int cli_object_end(struct cli *c, struct cli_object *o);

/* Options as libcove wants them; everything is borrowed from o. */
struct cove_box_options cli_box_options(const struct options *o);
struct cove_command cli_command(const struct options *o);

/* The box named by the first argument, running. 0 or an exit status. */
int cli_find(struct cli *c, struct cove_box **ret);

/* An exec id that was typed. 0 or an exit status. */
int cli_exec_id(struct cli *c, const char *text, uint64_t *ret);

/* The exit status of a finished command; says on stderr what a status alone cannot. */
int cli_result_status(const struct cove_result *result);

/* That something was done to name: one object {"name", "result"} with --json; with -v a [cove] line
 * where the library sent no event since there were `events` of them. 0 or an exit status. */
int cli_done(struct cli *c, const char *name, const char *result, unsigned events);

/* For each argument from first: call, print what fails, go on. The last failure's status. result
 * says what a success is ("removed"), or is NULL where the call says it itself. A call that returns
 * more than 0 has printed why: that is the exit status, and what is left is not tried. */
int cli_each(struct cli *c, size_t first, const char *result,
	     int (*call)(struct cli *c, const char *name, struct cove_error *err));
