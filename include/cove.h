/*
 * Cove: a computer of its own for every AI agent. The one public header of libcove.
 *
 *	struct cove *cove;
 *	struct cove_box *box;
 *	struct cove_result result;
 *	struct cove_error err;
 *	struct cove_command command = {.size = sizeof(command), .line = "echo hello"};
 *
 *	cove_new(&cove, NULL, &err);
 *	cove_create(cove, NULL, &box, &err);
 *	cove_run(box, &command, &result, &err);
 *
 * Functions return 0 (or a positive count) on success and a negative errno otherwise, with a
 * sentence in *err, which may be NULL. Structs that a caller fills begin with their own size, so
 * that a program built against an older header keeps working. Strings given are borrowed for the
 * call; what a function returns is freed with the function named beside it. A handle is used by one
 * thread at a time; different handles are independent. Numbers of time are milliseconds; 0 means
 * none.
 */
#ifndef COVE_H
#define COVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define COVE_VERSION "0.1.0"
#define COVE_ABI     2
#define COVE_API     __attribute__((visibility("default")))

/* Of the library that is loaded, not of this header. */
COVE_API const char *cove_version(void);
COVE_API int cove_abi(void);

enum cove_error_kind {
	COVE_OK = 0,
	COVE_INVALID,
	COVE_NOT_FOUND,
	COVE_EXISTS,
	COVE_CONFLICT,
	COVE_DENIED,
	COVE_LIMIT,
	COVE_FULL,
	COVE_UNSUPPORTED,
	COVE_TIMEOUT,
	COVE_INTERRUPTED,
	COVE_PROTOCOL,
	COVE_INTERNAL,
	COVE_DAMAGED, /* a file that Cove keeps is not as it was written */
};

struct cove_error {
	enum cove_error_kind kind;
	int code; /* positive errno or 0 */
	char message[232];
};
COVE_API const char *cove_error_name(enum cove_error_kind kind);

/* One per program: finds the state directory. It is made by the first call that puts something
 * there; before that everything is simply empty. Nothing is swept up here: later calls remove what
 * a crash left. */
struct cove;
struct cove_options {
	size_t size;
	const char *home; /* absolute; NULL: $COVE_HOME or the usual place */
	/* Called with one complete line (no newline) per event, human-readable and as JSON. */
	void (*on_event)(void *arg, const char *line, const char *json);
	void *arg;
};
COVE_API int cove_new(struct cove **ret, const struct cove_options *options,
		      struct cove_error *err);
COVE_API void cove_free(struct cove *cove);

/* ---- boxes ---- */

struct cove_box; /* a handle; freeing it does not end the box */

struct cove_box_options {
	size_t size;
	const char *name;	   /* NULL: a fresh one */
	const char *image;	   /* NULL: "base"; "host" for this machine's own programs */
	const char *workspace;	   /* a name, or a path with a slash in it for a host directory */
	const char *const *mounts; /* "SRC:DST[:ro][,env=NAME]", NULL-terminated */
	const char *const *env;	   /* "NAME=VALUE", NULL-terminated */
	const char *const *labels; /* "NAME=VALUE", NULL-terminated */
	const char *cwd;
	const char *user;
	uint64_t timeout_ms;	 /* default for its commands */
	const char *persistence; /* "workspace" (default) or "box" (also "sandbox") */
	bool one_shot;		 /* gone when this handle is freed or its process dies */

	/* Limits. 0 is the default (2 CPUs, 2 GiB, 1,024 processes, 10 GiB of disk, 65,536 open
	 * files, the rest unlimited), which is kept where the host can; what is given here is kept
	 * or the call fails with COVE_UNSUPPORTED and the remedy. COVE_UNLIMITED lifts one. */
	uint64_t mem_bytes; /* page cache, tmpfs and page tables included; swap is off */
	uint64_t cpu_milli; /* thousandths of a CPU */
	uint64_t pids;	    /* processes and threads */
	/* Of its own writes, and of its named workspace as much again; host directories are never
	 * counted. */
	uint64_t disk_bytes;
	uint64_t files;		       /* open, of one process */
	uint64_t io_bytes;	       /* per second, read and written each */
	uint64_t ttl_ms;	       /* from its start to its end */
	uint64_t idle_ms;	       /* without a running command or a request; looking is none */
	uint64_t net_bytes, net_conns; /* through its door: both ways together; at once */
	/* When ttl or idle is over: "stop" (default), "remove", or "pause": it is frozen in memory,
	 * and the next command, file operation or connection to a port of it wakes it; then its
	 * times begin anew. COVE_UNSUPPORTED with the remedy where the host cannot freeze it. */
	const char *expire;
	const char *storage; /* "plain", "loop", "tmpfs", "pool"; NULL: what fits */
	bool best_effort;    /* keep the limits that can be kept; cove_inspect lists the others */
	bool strict;	     /* no_new_privs, and no root inside */
	/* What makes the host run something (.git/hooks, .vscode, .envrc ...) is writable in host
	 * directories too. Without it that is read-only inside where it is there at the start. */
	bool trust_dir;

	/* What may leave: "closed" (or "none"), "balanced", "open"; "closed" or "balanced" with
	 * groups that open more ("balanced,huggingface", see cove_policy_groups); or a path with a
	 * slash in it for a policy file. NULL: the default, "balanced" unless
	 * cove_policy_set_default said otherwise. */
	const char *net;
	const char *const *allow; /* "HOST[:PORT]" beside it, NULL-terminated */
	const char *const *deny;

	/* What separates it from the host: a wall's name (see cove_walls). NULL: "native", Linux
	 * namespaces. "auto", "auto:500ms": the strongest that was added and started a box within
	 * that time then, a second unless said otherwise. */
	const char *wall;

	bool ptrace; /* its processes may trace each other: gdb, strace, leak checkers */

	/* With a host directory as workspace: the box works on a copy-on-write view of it. What it
	 * writes there is on its own disk; the directory is never written to. See cove_diff and
	 * cove_merge. */
	bool copy;

	/* What its own programs may ask, with cove-ctl inside: "info" (what the box is), "budget"
	 * (what it may still use) and "snapshot" (its state is kept; "snapshot=N": N of them,
	 * 10 unless said otherwise), with commas between. NULL: nothing, and nothing of it is
	 * there. */
	const char *ctl;

	/* The API key whose it is, by its id (cove_keys); NULL: the operator's. Its name, and that
	 * of a named workspace, begin with the id and '_'; a policy's `secret.NAME` is the secret
	 * ID.NAME then, and never one of the operator's. */
	const char *owner;
	/* Directories of this host, absolute and without links, NULL-terminated: what mounts and a
	 * workspace show must be one of them or below one, as it is written and as links lead, of
	 * which none may be absolute. Of all else it is not said whether it is there. NULL:
	 * anything. */
	const char *const *mount_roots;
	/* A shell line that runs in the background, as the box's user, each time the box has
	 * started: it brings its own daemons back. It is begun before the first command, which does
	 * not wait for it; where it fails the box runs all the same. */
	const char *on_start;
	/* When it is started again by cove_reap: "no" (default), "on-reboot": the host went down
	 * while it ran; "always": that, or it ended for another cause than that somebody wanted it
	 * or its time was over. Not of a one-shot box. */
	const char *restart;
	/* The first command follows at once: what it needs is made while the box comes up. */
	bool runs_soon;
};
#define COVE_UNLIMITED UINT64_MAX
#define COVE_UNKNOWN   UINT64_MAX /* in a result: it is not counted here */

/* Makes and starts a box. A one-shot box is still starting when this returns, so that its first
 * command need not wait: where it cannot start, the first call on the handle says why. */
COVE_API int cove_create(struct cove *cove, const struct cove_box_options *options,
			 struct cove_box **ret, struct cove_error *err);
/* A session: the caller's own id, always the same box. Creates, starts or joins it. prefix may be
 * NULL. options->name is not allowed; the workspace defaults to the box's name. What options give
 * and a box that is there already does not have is COVE_CONFLICT; fields left NULL or 0 agree with
 * any box, and of a list every item given must be the box's. */
COVE_API int cove_open(struct cove *cove, const char *session, const char *prefix,
		       const struct cove_box_options *options, struct cove_box **ret,
		       struct cove_error *err);
/* Closes a session: persistence "workspace" removes the box, "box" stops it; remove deletes the box
 * either way. A session that does not exist is success with remove. */
COVE_API int cove_close(struct cove *cove, const char *session, const char *prefix, bool remove,
			struct cove_error *err);
/* A running box by name. COVE_CONFLICT if it is stopped. */
COVE_API int cove_find(struct cove *cove, const char *name, struct cove_box **ret,
		       struct cove_error *err);
/* The same for file operations, also of a stopped box: that one is started for this handle alone,
 * with none of its commands, and stops with it. No other caller joins it meanwhile: one that wants
 * to start it waits. */
COVE_API int cove_visit(struct cove *cove, const char *name, struct cove_box **ret,
			struct cove_error *err);
COVE_API const char *cove_box_name(const struct cove_box *box);
COVE_API void cove_box_free(struct cove_box *box);

COVE_API int cove_start(struct cove *cove, const char *name, struct cove_error *err);
/* by: who asks, shown as who ended it; may be NULL. grace_ms: how long SIGTERM has before SIGKILL;
 * 0 is SIGKILL at once, COVE_GRACE_MS what `cove stop` gives. */
#define COVE_GRACE_MS 2000
COVE_API int cove_stop(struct cove *cove, const char *name, const char *by, uint64_t grace_ms,
		       struct cove_error *err);
/* force also ends a running box. A box that does not exist is COVE_NOT_FOUND, or success with
 * force. */
COVE_API int cove_remove(struct cove *cove, const char *name, bool force, struct cove_error *err);

/* How long a box may run from now on, kept with it; 0 leaves that as it is, COVE_UNLIMITED lifts
 * it. The ttl of a box that runs counts from this call, of another from its next start. One that
 * is asleep (expire "pause") is not woken, and gets that time when it is. */
COVE_API int cove_set_ttl(struct cove *cove, const char *name, uint64_t ttl_ms, uint64_t idle_ms,
			  struct cove_error *err);

/* state: "created", "running", "paused", "stopped"; "damaged" where one of its files is, "unknown"
 * where they cannot be read. */
struct cove_box_info {
	char name[64], image[256], workspace[64], state[16], cause[64], by[64], persistence[16];
	char session[128];
	uint64_t created_ms, started_ms, ended_ms;
	int64_t keeper_pid;
	/* It runs with an init from before a mend that matters: stop and start it. */
	bool outdated;
	char owner[16]; /* id of the API key whose it is; empty: the operator's */
};
/* Returns the count; free with free(). */
COVE_API int cove_list(struct cove *cove, struct cove_box_info **ret, struct cove_error *err);
/* Freezes every process of a box in memory, and thaws it; returns when they are frozen or run.
 * Idempotent. A paused box answers commands and file operations with COVE_CONFLICT; looking at
 * it, stopping and removing it work. COVE_UNSUPPORTED with the remedy where the host cannot. One
 * that is paused as its time was over (expire "pause") has that as its cause ("idle", "ttl"), and
 * is woken by commands and file operations instead; cove_pause makes it one that is not. */
COVE_API int cove_pause(struct cove *cove, const char *name, struct cove_error *err);
COVE_API int cove_resume(struct cove *cove, const char *name, struct cove_error *err);

/* What a running box uses now. What this host cannot tell is 0 of what every box has some (cpu_us,
 * mem_*, pids), COVE_UNKNOWN of the rest; a limit of 0 is none or not enforced. disk_* are of its
 * own writes and those in its named workspace, which have a limit each: disk_limit_bytes is both.
 * cpu_us, throttled_us, oom_kills, pids_hits and io_* only grow while it runs. */
struct cove_stats {
	uint64_t uptime_ms;
	bool paused;
	uint64_t cpu_us, cpu_limit_milli, throttled_us;
	uint64_t mem_bytes, mem_peak_bytes, mem_limit_bytes, oom_kills;
	uint64_t pids, pids_limit, pids_hits;
	uint64_t disk_bytes, disk_limit_bytes, disk_files, disk_files_limit;
	uint64_t io_read_bytes, io_write_bytes;
	uint64_t execs_running;
	uint64_t disk_own_limit_bytes; /* of disk_limit_bytes: without its workspace */
	uint64_t net_up_bytes, net_down_bytes, net_conns; /* through the door; connections now */
	/* Of its helpers on the host, in groups of their own; none of it is in the numbers above.
	 * The door's is of all doors it had, and its memory what it has now. */
	uint64_t keeper_cpu_us, keeper_cpu_limit_milli, keeper_mem_bytes, keeper_mem_limit_bytes;
	uint64_t door_cpu_us, door_cpu_limit_milli, door_mem_bytes, door_mem_limit_bytes;
};
COVE_API int cove_stats(struct cove *cove, const char *name, struct cove_stats *ret,
			struct cove_error *err);
/* Of several boxes, all asked at once: one that hangs delays no other, and is COVE_TIMEOUT after
 * 10 s. ret and errs have count elements; ret[i] is valid where errs[i].kind is COVE_OK. Negative
 * only where none could be asked. */
COVE_API int cove_stats_of(struct cove *cove, const char *const *names, size_t count,
			   struct cove_stats *ret, struct cove_error *errs, struct cove_error *err);
/* Everything known about a box as one JSON object; free with free(). */
COVE_API int cove_inspect(struct cove *cove, const char *name, char **ret_json,
			  struct cove_error *err);

/* ---- commands ---- */

#define COVE_NO_TIMEOUT UINT64_MAX

struct cove_command {
	size_t size;
	const char *const *argv; /* a program and its arguments, NULL-terminated; or */
	const char *line;	 /* a shell line */
	const char *shell;	 /* the persistent shell ("default") for line; NULL: a fresh one */
	const char *const *env;
	const char *cwd, *user;
	const void *input; /* stdin; NULL: empty */
	size_t input_len;
	/* 0: the box's default; COVE_NO_TIMEOUT: none, whatever that is. Waiting for a shell that
	 * is busy counts. */
	uint64_t timeout_ms;
	bool background; /* return at once; the id is in the result */
	/* cove_exec_start only: */
	bool stream_input; /* stdin comes through cove_exec_write and cove_exec_close_input */
	bool pty;
	unsigned rows, cols;
	/* Your own name for this request, 1 to 64 printable characters without a space; NULL: none.
	 * A box runs one command per token, in its whole life: asked for again, as after a lost
	 * connection, it gives the same command's output from the start and its end. With other
	 * arguments, or when the command is not remembered any more, COVE_CONFLICT. */
	const char *token;
	/* When its time is over it gets SIGTERM, and so much later SIGKILL with all it started. 0:
	 * COVE_GRACE_MS; COVE_NO_GRACE: SIGKILL at once, as where commands have no cgroup of their
	 * own (then only a shell's lines get SIGTERM) and in a box of an older Cove. */
	uint64_t grace_ms;
	/* With shell: where this line starts it, it reads the profile and ~/.bashrc first. A shell
	 * that runs and did not, or as another user than given here, is COVE_INVALID, and so are a
	 * directory (cwd) and environment (env) for it: a shell has those of its first line. */
	bool login;
	/* cove_run: of each stream keep so many bytes, at most 1 MiB, half of its beginning and
	 * half of its end, with a line between that says how many are missing. 0: the first 1 MiB.
	 */
	size_t max_output;
	bool merge; /* stderr is stdout: both in the order in which they were written */
};
#define COVE_NO_GRACE UINT64_MAX

/* What the box's door denied. */
struct cove_denial {
	char host[256];	 /* empty: what was sent named none */
	unsigned port;	 /* 0: a name was looked up */
	char method[32]; /* of a request; empty: a name or a connection */
	char reason[120];
	char remedy[240]; /* for the box's owner; empty where nothing should be done about it */
	bool shared;	  /* several commands ran, and it is not known which of them it was */
	char why[16];	  /* as in struct cove_audit_row; "limit": --net-bytes or --net-conns */
};

struct cove_files;
struct cove_result {
	uint64_t exec_id;
	/* It has ended, and exit_code is what `cove` exits with: its own status, 128+N after signal
	 * N, 124 where its time was over (then timed_out). False while it runs, and where it is not
	 * known how it ended (cause "interrupted"). */
	bool has_exit;
	int exit_code;
	int signal;	     /* that ended it, or 0 */
	char *out, *err_out; /* owned; NUL-terminated, may hold NULs; at most 1 MiB each */
	size_t out_len, err_len;
	uint64_t out_bytes, err_bytes; /* true counts */
	char *cwd;		       /* owned, may be NULL */
	uint64_t duration_ms;
	bool timed_out, oom_killed, truncated;
	bool never_started; /* a line that was ended while it waited for its shell: nothing ran */
	const char *shell;  /* "kept", "exited", "restarted", or NULL for exec */
	/* Why it ended: "exit", "signal", "timeout", "killed", "interrupted"; the limit it met:
	 * "oom" (then oom_killed), "pids", "disk"; or its box ended: "stopped" (stop, close, rm),
	 * "ttl", "idle". Or it did not end yet, "running" or "queued", or "failed to start". */
	char cause[32];
	/* Of the whole tree of the command; 0 where the host cannot tell, of I/O COVE_UNKNOWN. */
	uint64_t cpu_us, mem_peak_bytes, io_read_bytes, io_write_bytes;
	/* What was denied while it ran, each once; known as long as the box runs. */
	struct cove_denial *denied; /* owned */
	size_t denied_count;
	uint64_t denied_more;		/* further ones: `cove audit` has them */
	const struct cove_files *files; /* borrowed, of cove_run_with: what went with it; or NULL */
	/* The limit it met, as its flag is called: "mem", "pids", "disk", "ttl", "idle", "timeout";
	 * empty: none. How much that is, in bytes, ms or a number; 0: not known. For people: what
	 * raises it. */
	char limit[16];
	uint64_t limit_value;
	char remedy[160];
};
/* Runs a command to its end. */
COVE_API int cove_run(struct cove_box *box, const struct cove_command *command,
		      struct cove_result *ret, struct cove_error *err);
COVE_API void cove_result_free(struct cove_result *result);
/* The result as one JSON object; free with free(). stdout and stderr are strings; where the bytes
 * are not valid UTF-8 the string holds U+FFFD in their place and stdout_base64 or stderr_base64
 * stands beside it with the exact bytes; so do paths in inputs and outputs, which are there with
 * result->files. */
COVE_API char *cove_result_json(const struct cove_result *result);

/* A running command that the caller drives: output and the end come as events. */
struct cove_exec;
enum cove_event_type {
	COVE_EVENT_STARTED,
	COVE_EVENT_OUT,
	COVE_EVENT_ERR,
	COVE_EVENT_EXIT,
	COVE_EVENT_QUEUED, /* before STARTED: a line waits for its shell */
};
struct cove_event {
	enum cove_event_type type;
	const void *data; /* OUT, ERR: borrowed until the next call */
	size_t len;
	uint64_t exec_id;
	struct cove_result result; /* EXIT: without out and err_out; cwd and denied are borrowed */
};
COVE_API int cove_exec_start(struct cove_box *box, const struct cove_command *command,
			     struct cove_exec **ret, struct cove_error *err);
/* Joins a command at byte offsets of its streams. follow: until it ends, and stdin is this caller's
 * from now on. */
COVE_API int cove_exec_attach(struct cove_box *box, uint64_t exec_id, uint64_t out_from,
			      uint64_t err_from, bool follow, struct cove_exec **ret,
			      struct cove_error *err);
/* Only reads the output of a command, of a running or a stopped box. */
COVE_API int cove_log_open(struct cove *cove, const char *box, uint64_t exec_id, uint64_t out_from,
			   uint64_t err_from, bool follow, struct cove_exec **ret,
			   struct cove_error *err);
/* Waits until a command of a running or a stopped box has ended, however it was started; one that
 * has ended already answers at once. The result is that of cove_run, with what its log has of the
 * output. timeout_ms: COVE_TIMEOUT after so long, and the command goes on. */
COVE_API int cove_wait(struct cove *cove, const char *box, uint64_t exec_id, uint64_t timeout_ms,
		       struct cove_result *ret, struct cove_error *err);
/* Readable when more came than cove_exec_next has already handed out: call that until it gives 0,
 * then wait here. */
COVE_API int cove_exec_fd(const struct cove_exec *exec);
/* 1 and an event; 0 when timeout_ms passed without one (-1 waits for ever) or when stdin, which was
 * full, has room again; -EPIPE after the last. */
COVE_API int cove_exec_next(struct cove_exec *exec, int timeout_ms, struct cove_event *ret,
			    struct cove_error *err);
/* How many bytes stdin takes now; 0 means: wait with cove_exec_next. Writing more is COVE_LIMIT
 * (EAGAIN) and writes nothing. */
COVE_API size_t cove_exec_input_room(const struct cove_exec *exec);
COVE_API int cove_exec_write(struct cove_exec *exec, const void *data, size_t len,
			     struct cove_error *err);
COVE_API int cove_exec_close_input(struct cove_exec *exec, struct cove_error *err);
COVE_API int cove_exec_resize(struct cove_exec *exec, unsigned rows, unsigned cols,
			      struct cove_error *err);
COVE_API void cove_exec_free(struct cove_exec *exec); /* the command goes on */

/* exec_id may be of any command of the box. SIGKILL goes to its whole tree. */
COVE_API int cove_signal(struct cove_box *box, uint64_t exec_id, int sig, struct cove_error *err);

/* The persistent shells of a box, which the first line to one makes; at most 32 at a time. state:
 * "idle", "busy" (exec_id), "starting", or "lost": it died since its last line. */
struct cove_shell_info {
	char name[72], user[64], state[16];
	int64_t pid;
	uint64_t exec_id, queued; /* the line that runs, or 0; lines that wait */
	bool login;
	char cwd[4096]; /* empty: not known */
};
/* Returns the count; free with free(). */
COVE_API int cove_shells(struct cove_box *box, struct cove_shell_info **ret,
			 struct cove_error *err);
/* Ends a shell: COVE_CONFLICT if lines run in it or wait, COVE_NOT_FOUND if there is none; with
 * force those are ended too, and one that is not there is fine. Returns when it is gone; the next
 * line to that name starts a new one. Jobs that its lines left in the background live on. */
COVE_API int cove_shell_remove(struct cove_box *box, const char *name, bool force,
			       struct cove_error *err);

struct cove_exec_info {
	uint64_t exec_id, started_ms, duration_ms, out_bytes, err_bytes;
	int64_t pid;
	char command[96], state[16], shell[72], cause[32];
	bool has_exit, background;
	int exit_code, signal; /* as in struct cove_result */
	bool truncated;	       /* not all of its output was kept: reading it ends before its end */
	bool oom_killed;
	uint64_t cpu_us, mem_peak_bytes, io_read_bytes, io_write_bytes;
	uint64_t denied_count; /* how often the box's door denied something while it ran */
};
/* Returns the count; free with free(). Works on a stopped box too. A command that could not start
 * is there too: it ended with the cause "failed to start". Of a list that is damaged the rest is
 * returned, and *err says so (COVE_DAMAGED). */
COVE_API int cove_execs(struct cove *cove, const char *box, struct cove_exec_info **ret,
			struct cove_error *err);

/* The history of a box, oldest first: on_line gets one JSON line per event and returns false to
 * stop. follow: until the box ends; one whose keeper is of an older Cove that cannot be followed is
 * COVE_UNSUPPORTED. Works on a stopped box too. A gap in "seq" is rows that are not kept any more.
 */
typedef bool cove_on_line(void *arg, const char *json);
COVE_API int cove_events(struct cove *cove, const char *box, bool follow, cove_on_line *on_line,
			 void *arg, struct cove_error *err);

/* ---- the door: what may leave a box ---- */

/* A policy is checked by the door's own reader. COVE_INVALID names line and fault. name is for
 * messages. Also checked: that every secret it names is there. */
COVE_API int cove_policy_check(struct cove *cove, const char *name, const char *text, size_t len,
			       struct cove_error *err);
/* The same for a box of an API key (its id): the secrets are those of its namespace. */
COVE_API int cove_policy_check_of(struct cove *cove, const char *owner, const char *name,
				  const char *text, size_t len, struct cove_error *err);
/* The same of a file; "-" is stdin. on_warning (may be NULL) hears what is in order and still worth
 * a thought, one sentence at a time. */
typedef void cove_on_warning(void *arg, const char *text);
COVE_API int cove_policy_check_file(struct cove *cove, const char *path,
				    cove_on_warning *on_warning, void *arg, struct cove_error *err);
/* Is it one of the policies that are built in, or such a one with groups, and no box or file? */
COVE_API bool cove_policy_is_preset(const char *name);
/* The text that holds for a box, with grants as comments; or (box NULL) of a preset, a group or a
 * preset with groups; or (both NULL) of the default. Free with free(). */
COVE_API int cove_policy_text(struct cove *cove, const char *box, const char *preset,
			      char **ret_text, struct cove_error *err);
/* The groups that there are; returns their count. hosts: with a space between. Free with free(). */
struct cove_policy_group {
	char name[32], summary[64];
	char hosts[4096];
};
COVE_API int cove_policy_groups(struct cove *cove, struct cove_policy_group **ret,
				struct cove_error *err);
/* net as in cove_box_options. Kept for the box; open connections are judged again at once, and
 * *ret_cut (may be NULL) of them were cut. Live grants go. by: who asks, for the audit log; may
 * be NULL. */
COVE_API int cove_policy_apply(struct cove *cove, const char *box, const char *net, const char *by,
			       uint64_t *ret_cut, struct cove_error *err);
/* The policy of a box with the rules that would have let pass what was denied to it, and no more; a
 * policy as any other, with comments that say how often and why. What no rule lets pass is a
 * comment, too. Of a box that is gone only the rules. ret->size is set before; free text with
 * free(). */
struct cove_suggestion {
	size_t size;
	uint64_t denied;  /* rows of the audit log */
	uint64_t rules;	  /* that were added */
	uint64_t remarks; /* denials that no rule lets pass */
	char *text;	  /* owned by the caller */
};
COVE_API int cove_policy_suggest(struct cove *cove, const char *box, struct cove_suggestion *ret,
				 struct cove_error *err);
COVE_API int cove_policy_set_default(struct cove *cove, const char *net, struct cove_error *err);

/* "HOST[:PORT]" beside the policy. for_ms 0: until the box is gone; once: for one connection. */
struct cove_grant {
	size_t size;
	const char *pattern;
	bool allow, once;
	uint64_t for_ms;
	const char *by; /* who asks, for the audit log; may be NULL */
};
COVE_API int cove_grant(struct cove *cove, const char *box, const struct cove_grant *grant,
			uint64_t *ret_cut, struct cove_error *err);

/* A request that waits for a person. Texts are valid for the call; what is long is cut, and ends
 * with "...". */
struct cove_ask {
	const char *box;
	uint64_t id;
	const char *host;
	uint64_t port;
	const char *method, *path, *query; /* NULL: a whole connection */
	const char *rule;		   /* may be NULL */
	uint64_t exec_id;		   /* 0: not known */
	uint64_t since_ms;		   /* wall clock */
	uint64_t left_ms;		   /* until it is denied */
	uint64_t requests;		   /* that wait for the same answer */
};
typedef bool cove_on_ask(void *arg, const struct cove_ask *ask); /* false stops */
/* box NULL: of all running boxes, which are asked at once. One that does not answer within 15 s is
 * the error, when what the others said has been given to on_ask. */
COVE_API int cove_asks(struct cove *cove, const char *box, cove_on_ask *on_ask, void *arg,
		       struct cove_error *err);
/* As one JSON object; free with free(). NULL: no memory. */
COVE_API char *cove_ask_json(const struct cove_ask *ask);
/* id as cove_asks has it. The answer is for what that shows: host and port, and method, path and
 * query of a request. for_ms: it holds for the same, with any query, that long, and what it let in
 * is cut when that is over; 0: for those that wait now. on_scope (may be NULL) gets what was
 * answered. */
struct cove_answer {
	size_t size;
	uint64_t id;
	bool allow;
	uint64_t for_ms;
	const char *by; /* who answers, for the audit log; may be NULL */
};
COVE_API int cove_answer(struct cove *cove, const char *box, const struct cove_answer *answer,
			 cove_on_ask *on_scope, void *arg, struct cove_error *err);

/* Credentials, by name; ID.NAME is one for the boxes of that API key. source: "value" (data is the
 * value), "file" or "command" (data is the path or the line). The value is never shown again. */
COVE_API int cove_secret_set(struct cove *cove, const char *name, const char *source,
			     const void *data, size_t len, struct cove_error *err);
/* From a command, as with the source "command"; doors keep its output for cache_ms (0: not; at most
 * a day), in memory only. Setting it again, or removing it, ends that. */
COVE_API int cove_secret_set_command(struct cove *cove, const char *name, const char *line,
				     uint64_t cache_ms, struct cove_error *err);
COVE_API int cove_secret_remove(struct cove *cove, const char *name, struct cove_error *err);
struct cove_secret_info {
	char name[72], source[16], where[256];
	uint64_t changed_ms;
	uint64_t cache_ms; /* of a command; 0: it is run whenever it is needed */
};
/* Returns the count; free with free(). */
COVE_API int cove_secrets(struct cove *cove, struct cove_secret_info **ret, struct cove_error *err);

/* What a box did at its door. Texts are valid for the call; NULL and 0: there is none. */
struct cove_audit_row {
	const char *box;
	uint64_t time_ms, seq;
	/* name, connect, request, ask, answer, policy, grant, door, damage, dropped; done where
	 * the log is followed */
	const char *kind;
	uint64_t about; /* done, answer: the seq of the row that it belongs to */
	uint64_t exec_id;
	const char *host;
	uint64_t port;
	const char *method, *path;
	const char *rule;    /* its name */
	const char *verdict; /* allow, deny, ask; done: ok, cut, failed */
	const char *reason;
	const char *address; /* that was dialled */
	uint64_t status, bytes_up, bytes_down, duration_ms;
	uint64_t count;		/* of equal ones that this row stands for */
	const char *credential; /* names of secrets used, comma-separated */
	const char *by;
	/* deny: unmatched, request, rule, private, metadata, budget, limit, person, credential,
	 * form or policy */
	const char *why;
};
/* false stops. row NULL: it is only asked whether to go on. */
typedef bool cove_on_row(void *arg, const struct cove_audit_row *row);
/* As one JSON object; free with free(). NULL: no memory. */
COVE_API char *cove_audit_row_json(const struct cove_audit_row *row);
/* Oldest first; also of boxes that are gone. box NULL: all. follow: until on_row returns false. */
struct cove_audit_options {
	size_t size;
	const char *box;
	bool denied_only, follow;
	uint64_t since_ms; /* wall clock */
};
COVE_API int cove_audit(struct cove *cove, const struct cove_audit_options *options,
			cove_on_row *on_row, void *arg, struct cove_error *err);
/* 0 if no row was changed, removed or put in since it was written; ret->size is set before. */
struct cove_audit_report {
	size_t size;
	uint64_t rows;	  /* that were checked */
	uint64_t dropped; /* by rotation, before those */
	uint64_t cut;	  /* logs whose end was cut short by a crash */
};
COVE_API int cove_audit_verify(struct cove *cove, const char *box, struct cove_audit_report *ret,
			       struct cove_error *err);
/* Deletes the rows of a box that is gone, or (box NULL) of all that ended before that time. */
COVE_API int cove_audit_delete(struct cove *cove, const char *box, uint64_t before_ms,
			       const char *by, uint64_t *ret_rows, struct cove_error *err);

/* How long rows of boxes that are gone are kept: set_ms (may be NULL; 0: for ever), then *ret_ms.
 * */
COVE_API int cove_audit_keep(struct cove *cove, const uint64_t *set_ms, uint64_t *ret_ms,
			     struct cove_error *err);

/* The other way: forwards a port of this host to one in the box, until stop_fd (above 0) is
 * readable. on_ready gets the port that it listens on. */
struct cove_forward {
	size_t size;
	unsigned port;	     /* in the box */
	const char *address; /* to listen on; NULL: 127.0.0.1 and nothing else */
	unsigned local_port; /* 0: a free one */
	int stop_fd;
	void (*on_ready)(void *arg, const char *address, unsigned local_port);
	void *arg;
	/* A connection was not taken in the box, or was broken off there; may be NULL. */
	void (*on_failed)(void *arg, const char *why);
	/* Written down with the box, so that cove_forwards lists it, until cove_forward_end; wait:
	 * where another process still forwards that, for its end. One thread of a process only. */
	bool keep, wait;
};
COVE_API int cove_forward(struct cove_box *box, const struct cove_forward *forward,
			  struct cove_error *err);

/* What was forwarded with keep. One that is not live ended with the box, or with its process. */
struct cove_forward_info {
	char address[48];
	unsigned port, local_port;
	bool is_live;
	unsigned pid; /* of the process that forwards it; 0: none */
};
/* Returns the count; free with free(). */
COVE_API int cove_forwards(struct cove *cove, const char *box, struct cove_forward_info **ret,
			   struct cove_error *err);
/* Ends those (local_port 0: all of them) by SIGTERM to who forwards them, and forgets them. Returns
 * how many there were. */
COVE_API int cove_forward_end(struct cove *cove, const char *box, unsigned local_port,
			      struct cove_error *err);

/* TCP sockets that listen in the box, by port; its own word. Returns the count; free with
 * free(). */
struct cove_listening {
	char address[48];
	unsigned port;
	unsigned pid;	  /* in the box; 0: not known */
	char program[32]; /* empty: not known */
};
COVE_API int cove_listening(struct cove_box *box, struct cove_listening **ret,
			    struct cove_error *err);

/* ---- files: all done inside the box, as its user ---- */

struct cove_file_info {
	char type;	     /* 'f', 'd', 'l', 'o' */
	char *name, *target; /* owned by the list */
	unsigned mode, uid, gid;
	uint64_t size, mtime_ns;
};
/* A path in a box is absolute, or relative to where commands start; `~` and `~/x` are the user's
 * home. */
/* How to copy; all of it may be left out, and where a pointer to it is taken it may be NULL. */
struct cove_copy {
	size_t size;	  /* of this struct */
	const char *user; /* whose rights apply in the box, and who owns what is written there */
	/* Called now and then, also while nothing moves. False gives up: COVE_INTERRUPTED, and what
	 * was half written is removed. */
	bool (*progress)(void *arg, uint64_t bytes, uint64_t files);
	void *arg;
	/* Something below the path could not be read and was left out. NULL: that ends the copy. */
	void (*on_skipped)(void *arg, const char *path, const char *why);
	/* cove_get_fd of a file: its bytes from this one on, and at most so many; 0: all. */
	uint64_t from, bytes;
};
/* Host path to box path and back, files or whole directories. What is copied onto an existing
 * directory goes inside it, as with cp -r. They return how many entries were left out because they
 * are no file, directory or link. Permissions, times, holes and hard links are kept; what comes out
 * is never writable for more than the caller's umask lets it. Nothing that comes out of a box is
 * followed or trusted: its links are made, never walked through, and no file gets setuid bits. */
COVE_API int cove_put(struct cove_box *box, const char *host_path, const char *box_path,
		      const struct cove_copy *how, struct cove_error *err);
COVE_API int cove_get(struct cove_box *box, const char *box_path, const char *host_path,
		      const struct cove_copy *how, struct cove_error *err);
/* From and to a descriptor; one file. A directory comes, and one that is there takes, a tar stream,
 * which is refused where it leads out of that directory; put returns how many entries were left
 * out. */
COVE_API int cove_put_fd(struct cove_box *box, int fd, const char *box_path, unsigned mode,
			 const struct cove_copy *how, struct cove_error *err);
COVE_API int cove_get_fd(struct cove_box *box, const char *box_path, int fd,
			 const struct cove_copy *how, struct cove_error *err);

/* A path that goes with a command: into the box before it starts, or out of it after it ended. */
struct cove_transfer {
	size_t size;
	/* As for cove_put and cove_get. The host's side NULL: it is fd, as for cove_put_fd and
	 * cove_get_fd. An input whose `to` ends in a slash goes inside that directory, which is
	 * made; an output's has to be there. */
	const char *from, *to;
	int fd;
	/* What became of it: how much came, and what did not, being no file, directory or link. */
	uint64_t bytes, files, left_out;
	struct cove_error error; /* COVE_OK: it is there; COVE_INTERRUPTED: or it was not tried */
};
struct cove_files {
	size_t size;
	struct cove_transfer *inputs, *outputs; /* at most 256 each */
	size_t input_count, output_count;
	const char *cwd; /* where relative paths in the box begin; NULL: where commands do */
	const struct cove_copy *how; /* may be NULL; its user NULL: the box's */
};
/* Puts the inputs, in order. First all is looked at, the places of the outputs too: what is missing
 * on the host, or named twice, is the error before anything is copied. An input that cannot be
 * copied whole is the error, and those after it are not tried. */
COVE_API int cove_put_files(struct cove_box *box, const struct cove_files *files,
			    struct cove_error *err);
/* Gets each output that is there; one that fails does not keep the others. Returns how many did
 * not come whole: their `error` says why. */
COVE_API int cove_get_files(struct cove_box *box, const struct cove_files *files,
			    struct cove_error *err);
/* cove_put_files, cove_run and, however the command ended, cove_get_files. Who they are for and
 * where paths begin is as for the command, unless files say it. The command does not run where an
 * input fails; an output that fails is no error of this call. */
COVE_API int cove_run_with(struct cove_box *box, const struct cove_command *command,
			   const struct cove_files *files, struct cove_result *ret,
			   struct cove_error *err);

/* From and to memory. get fails with COVE_LIMIT beyond max; free *ret with free(). */
COVE_API int cove_put_data(struct cove_box *box, const char *box_path, const void *data, size_t len,
			   unsigned mode, struct cove_error *err);
COVE_API int cove_get_data(struct cove_box *box, const char *box_path, size_t max, void **ret,
			   size_t *ret_len, struct cove_error *err);
COVE_API int cove_stat(struct cove_box *box, const char *path, struct cove_file_info *ret,
		       struct cove_error *err);
COVE_API int cove_list_dir(struct cove_box *box, const char *path, struct cove_file_info **ret,
			   struct cove_error *err);
COVE_API void cove_file_info_free(struct cove_file_info *list, size_t count);
COVE_API int cove_mkdir(struct cove_box *box, const char *path, unsigned mode,
			struct cove_error *err);
COVE_API int cove_move(struct cove_box *box, const char *from, const char *to,
		       struct cove_error *err);
COVE_API int cove_unlink(struct cove_box *box, const char *path, bool recursive,
			 struct cove_error *err);
COVE_API int cove_chmod(struct cove_box *box, const char *path, unsigned mode,
			struct cove_error *err);

/*
 * What tools of agents do with files: lines, edits, searches, watching. It is done by a process in
 * the box, as its user, within what the box may use, and ends with the call. A box that an older
 * Cove started is COVE_UNSUPPORTED. A FIFO, socket or device is COVE_INVALID, never opened.
 *
 * Of the structs that say how, all may be NULL or left 0 but what is asked for. user: whose rights
 * apply. time_ms: for all of it, 0 is 30 s and 10 min the most. cancel_fd: above 0, when it can be
 * read the call ends with COVE_INTERRUPTED; no regular file.
 */
struct cove_read_options {
	size_t size;
	const char *user;
	uint64_t from_line; /* from 1 on; 0: 1 */
	uint64_t count;	    /* of lines; 0: 2,000 */
	size_t max_bytes; /* of text; 0: 512 KiB, 16 MiB the most. Lines are whole, but the first */
	size_t max_line_bytes; /* where a line is cut; 0, and the most: 64 KiB */
	bool binary;	       /* what does not look like text, too */
	uint64_t time_ms;
	int cancel_fd;
};
struct cove_lines {
	char *text; /* owned; NUL-terminated; as in the file, any bytes */
	size_t text_len;
	uint64_t first_line, last_line; /* 0: none came */
	uint64_t total_lines; /* COVE_UNKNOWN: more than 64 MiB, or the time, beyond the last */
	bool at_end;	      /* nothing comes after last_line, or from_line is beyond the end */
	/* A NUL or invalid UTF-8 in the first 8 KiB: no text came unless `binary` was set. */
	bool is_binary;
	uint64_t cut_lines; /* of those that came */
	uint64_t file_size, mtime_ns;
};
/* Lines of a file. One that grows meanwhile is read as far as it went. */
COVE_API int cove_read_lines(struct cove_box *box, const char *path,
			     const struct cove_read_options *options, struct cove_lines *ret,
			     struct cove_error *err);
COVE_API void cove_lines_done(struct cove_lines *lines);

/* Exact texts, which end with their NUL. */
struct cove_edit {
	const char *old_text, *new_text;
	bool all; /* every occurrence; else there must be one */
};
struct cove_edit_options {
	size_t size;
	const char *user;
	const struct cove_edit *edits; /* in order, each on what the one before left */
	size_t count;		       /* at most 100; 960 KiB of text in all */
	/* Only if the file is so still. */
	const char *if_sha256; /* hex; NULL: not asked */
	uint64_t if_mtime_ns;  /* with if_size; 0: not asked */
	uint64_t if_size;
	uint64_t time_ms;
	int cancel_fd;
};
struct cove_edited {
	uint64_t occurrences; /* replaced, of all edits */
	uint64_t first_line;  /* of the first edit's first one */
	uint64_t file_size, mtime_ns;
	char sha256[65];
};
/*
 * Replaces texts in a file, all or nothing: the new content is written beside it and renamed, with
 * its mode, owner and attributes where the user may give them. A final link is followed; other hard
 * links keep the old content. A text of several lines that is not there is looked for with CRLF and
 * with LF at their ends, and the file's ends stay as they are. What err.code says is wrong:
 *	ENOENT, EISDIR, EINVAL	no file there, or no regular one
 *	EILSEQ			not text: as is_binary of struct cove_lines, or a NUL anywhere
 *	ENODATA			a text is not in the file
 *	ENOTUNIQ		it is there several times, and `all` is not set
 *	ESTALE			the file is not what if_ says, or was changed meanwhile
 *	EFBIG			it has, or would have, over 16 MiB
 */
COVE_API int cove_edit(struct cove_box *box, const char *path,
		       const struct cove_edit_options *options, struct cove_edited *ret,
		       struct cove_error *err);

/* How a search went. */
struct cove_found {
	uint64_t count;	   /* names, or lines that match */
	uint64_t files;	   /* searched */
	uint64_t left_out; /* could not be read, or lie deeper than 128 directories */
	/* NULL: that is all. "count": there is more than was asked for; "time": the time was over;
	 * "size": a directory has more names than are read. */
	const char *truncated;
};
struct cove_glob_options {
	size_t size;
	const char *user;
	bool any_type;	    /* not only files, and links to files */
	uint64_t max_count; /* 0: 10,000; 1,000,000 the most */
	uint64_t time_ms;
	int cancel_fd;
	/* In order; the file's name is its path below the directory, valid during the call, as all
	 * of it is. Not 0: no more. */
	int (*on_match)(void *arg, const struct cove_file_info *file);
	void *arg;
};
/*
 * Names below a directory that match a pattern, in the order of their bytes (a directory's name
 * with a slash): * and ? and [a-z] or [!a-z] in one name, ** between slashes for any number of
 * directories, {a,b}, and a backslash before what is meant literally. Without a slash a pattern is
 * for the name at any depth; one at its beginning says that it is not. What begins with a dot
 * matches only a pattern that says the dot. No link is followed; of proc, sysfs and cgroups nothing
 * is searched unless the directory is in it. A `..` is COVE_INVALID.
 */
COVE_API int cove_glob(struct cove_box *box, const char *dir, const char *pattern,
		       const struct cove_glob_options *options, struct cove_found *ret,
		       struct cove_error *err);

struct cove_match {
	const char *path;     /* below what was searched; "": that file itself */
	uint64_t line;	      /* from 1 on */
	uint64_t column;      /* byte of the line at which the match begins, from 1 on */
	const char *text;     /* of the line, without its end; any bytes */
	uint64_t text_column; /* of its first byte: 1 unless the beginning is cut off */
	bool is_cut;	      /* text is not the whole line */
	bool is_context;      /* near one that matches; without a column */
};
struct cove_grep_options {
	size_t size;
	const char *user;
	bool regex;	       /* a POSIX extended regular expression; else the text itself */
	bool ignore_case;      /* of the text itself only of ASCII */
	const char *glob;      /* only files that match; here * matches what begins with a dot */
	uint64_t context;      /* lines before and after, at most 100 */
	uint64_t max_count;    /* lines that match, of all files; as of struct cove_glob_options */
	size_t max_line_bytes; /* where a line is cut; 0: 2,000; 32 KiB the most */
	uint64_t time_ms;
	int cancel_fd;
	int (*on_match)(void *arg, const struct cove_match *match); /* not 0: no more */
	void *arg;
};
/* Lines of a file, or of all files below a directory, in order as cove_glob gives them. Binary
 * files (a NUL in the first 8 KiB) are skipped; of a line the first MiB is searched. A carriage
 * return at its end is no part of it. */
COVE_API int cove_grep(struct cove_box *box, const char *path, const char *pattern,
		       const struct cove_grep_options *options, struct cove_found *ret,
		       struct cove_error *err);

enum cove_watch_kind {
	COVE_WATCH_READY,   /* what happens from now on is seen */
	COVE_WATCH_CREATED, /* may come twice */
	COVE_WATCH_WRITTEN,
	COVE_WATCH_REMOVED,
	COVE_WATCH_RENAMED, /* path -> to; from elsewhere it is created, to elsewhere removed */
	COVE_WATCH_CHMOD,   /* mode, owner, times or attributes */
	/* Changes came faster than they were taken: look at everything anew when READY has come
	 * again. */
	COVE_WATCH_LOST,
	/* This directory may not be read, or is one too many: what happens in it is not seen. */
	COVE_WATCH_UNWATCHED,
};
struct cove_watch_event {
	enum cove_watch_kind kind;
	const char *path, *to; /* below the directory; "": itself; to may be NULL */
	bool is_dir;
};
struct cove_watch_options {
	size_t size;
	const char *user;
	bool recursive; /* the whole tree; at most 8,192 directories, 32,768 of all in a box */
	int stop_fd;	/* above 0: the call returns when it can be read */
	int (*on_event)(void *arg, const struct cove_watch_event *event); /* not 0: it returns */
	void *arg;
};
/* Watches a directory until it is stopped; or it, or the box, is gone, which is an error. */
COVE_API int cove_watch(struct cove_box *box, const char *dir,
			const struct cove_watch_options *options, struct cove_error *err);

/* ---- images and workspaces ---- */

struct cove_image_info {
	char name[256], id[72], user[64];
	uint64_t created_ms, bytes, layers;
};
COVE_API int cove_images(struct cove *cove, struct cove_image_info **ret, struct cove_error *err);
/* From a tar stream, uncompressed, that the caller trusts: it is unpacked with the box's ids by a
 * child that is not confined further. Those of others: cove_image_import_any. user may be NULL: uid
 * 1000 of the image, else root. */
COVE_API int cove_image_import(struct cove *cove, const char *name, const char *user, int tar_fd,
			       struct cove_error *err);

/* How far an import or an export is. */
struct cove_image_progress {
	const char *what;     /* "read", "unpack", "write" */
	uint64_t done, total; /* bytes; total 0: not known */
};
struct cove_image_source {
	size_t size;
	int fd;		      /* a file, a pipe or a directory; it is read from where it stands */
	const char *name;     /* of the image; NULL: as the archive calls it, or else: */
	const char *base;     /* what it is called where nothing else says; NULL: an error then */
	const char *user;     /* who commands run as; NULL: as the image says */
	const char *source;   /* where it came from, to be shown; NULL */
	const char *platform; /* of several; NULL: this machine's */
	uint64_t max_size;    /* that its files may hold; 0: a default */
	int cancel_fd;	      /* above 0: when it can be read, all ends and nothing is left */
	/* False ends it. */
	bool (*on_progress)(void *arg, const struct cove_image_progress *p);
	void *arg;
};
struct cove_imported {
	char name[256], id[72];
	char digest[72], config[72]; /* of its manifest and its config; empty: it came without */
	uint64_t bytes, layers;
};
/* Makes images of what is recognised by its content: a root filesystem (a directory, or a tar that
 * may be compressed by gzip, xz, zstd or bzip2), an OCI layout (a directory or a tar) or what
 * `docker save` writes. Returns how many; free *ret with free(). */
COVE_API int cove_image_import_any(struct cove *cove, const struct cove_image_source *from,
				   struct cove_imported **ret, struct cove_error *err);
struct cove_image_target {
	size_t size;
	int fd;		    /* where it is written: a file or a pipe, or an empty directory */
	const char *format; /* "oci", "oci-dir", "docker" or "tar" (a root filesystem); NULL: oci */
	int cancel_fd;	    /* as above; what was written then is for the caller to remove */
	bool (*on_progress)(void *arg, const struct cove_image_progress *p);
	void *arg;
};
struct cove_exported {
	size_t size;
	char digest[72], config[72]; /* of its manifest and config; empty: a root filesystem */
	uint64_t bytes;
	bool is_original; /* byte for byte as the image came */
};
/* Writes an image as an archive. What it came as is given back with the same digests; else its
 * layers are packed, always alike. ret->size is set before. */
COVE_API int cove_image_export(struct cove *cove, const char *name,
			       const struct cove_image_target *to, struct cove_exported *ret,
			       struct cove_error *err);
COVE_API int cove_image_remove(struct cove *cove, const char *name, struct cove_error *err);
/* Everything known about an image as one JSON object; free with free(). */
COVE_API int cove_image_inspect(struct cove *cove, const char *name, char **ret_json,
				struct cove_error *err);
/* A second name for the same image, whatever it meant before; layers that no name means any more
 * stay until cove_image_gc. */
COVE_API int cove_image_tag(struct cove *cove, const char *name, const char *tag,
			    struct cove_error *err);
/* How it was made, newest first. Returns the count; free with free(). */
struct cove_image_step {
	char by[2048];
	char layer[72]; /* empty: it made none */
	uint64_t created_ms, bytes;
};
COVE_API int cove_image_history(struct cove *cove, const char *name, struct cove_image_step **ret,
				struct cove_error *err);
/* What an image runs: its entrypoint, and after it args or, where those are none, what it says
 * itself. entrypoint not NULL: that program instead, and none of the image's own arguments; "":
 * none. Empty where the image says nothing. NULL-terminated, one block: free with free(). */
COVE_API int cove_image_argv(struct cove *cove, const char *image, const char *entrypoint,
			     const char *const *args, const char ***ret, struct cove_error *err);

/* ---- images of a registry ---- */

/* How far a pull is. Of layer, where it is not NULL, have of size bytes are there. */
struct cove_pull_progress {
	size_t size_of_this;
	bool is_unpacking; /* everything was fetched, and becomes layers */
	const char *layer; /* sha256:... */
	uint64_t have, size;
	bool is_done, was_there; /* the layer: fetched, or not even needed */
	uint64_t layers, layers_done;
	uint64_t all_have, all_size; /* bytes of all of them */
	uint64_t fetched;	     /* bytes that came over the network */
};

struct cove_pull {
	size_t size;
	const char *name;	/* of the image; NULL: ref without ":latest" */
	const char *platform;	/* "os/arch[/variant]"; NULL: this machine's */
	const char *ca;		/* a file of certificates to trust beside the host's; NULL */
	bool insecure;		/* also without TLS, and whatever its certificate */
	uint64_t stall_ms;	/* without data: the connection is given up; 0: a minute */
	const char *const *env; /* for logins and proxies; NULL: this process's environment */
	int cancel_fd;		/* above 0: when it can be read, the pull ends */
	/* False ends it. What was fetched is kept for the next time. */
	bool (*on_progress)(void *arg, const struct cove_pull_progress *p);
	void *arg;
	/* Only addresses of the public internet are dialled, and none through a proxy: for who may
	 * not use what only this machine reaches. */
	bool public_only;
};

struct cove_pulled {
	size_t size;
	char image[256];	 /* its name */
	char digest[72];	 /* of its manifest, "sha256:..." */
	uint64_t bytes, fetched; /* of its blobs; of them over the network */
	uint64_t layers, layers_there;
};

/* Fetches an image from a registry: [HOST[:PORT]/]PATH[:TAG][@sha256:...]. A login is taken from
 * where Docker's and Podman's clients keep it. ret->size is set before. */
COVE_API int cove_image_pull(struct cove *cove, const char *ref, const struct cove_pull *how,
			     struct cove_pulled *ret, struct cove_error *err);

/* ---- building images ---- */

enum cove_build_event_type {
	COVE_BUILD_STEP,   /* begins: text is the instruction */
	COVE_BUILD_CACHED, /* instead of STEP and DONE: its layer was there */
	COVE_BUILD_OUT,	   /* data and len: what a RUN printed */
	COVE_BUILD_ERR,
	COVE_BUILD_DONE, /* after STEP: duration_ms */
	COVE_BUILD_NOTE, /* text: a sentence worth reading */
};
struct cove_build_event {
	enum cove_build_event_type type;
	unsigned step, steps; /* from 1 */
	unsigned line;	      /* of the Dockerfile */
	const char *stage;    /* the name of its stage, NULL: it has none */
	const char *text;
	const void *data;
	size_t len;
	uint64_t duration_ms;
	bool has_layer; /* DONE, CACHED */
};
struct cove_build_options {
	size_t size;
	const char *context;	 /* a directory; NULL: none */
	const char *file;	 /* the Dockerfile; NULL: Dockerfile in the context */
	const char *text;	 /* its text instead */
	const char *name;	 /* of the image; NULL: the first digits of its id */
	const char *const *args; /* "NAME=VALUE", NULL-terminated */
	const char *target;	 /* a stage; NULL: the last */
	bool no_cache;		 /* every step is made anew */
	/* "id=NAME,src=FILE" or "id=NAME,env=VARIABLE", NULL-terminated: for RUN
	 * --mount=type=secret. In memory of the box while that command runs, in no layer. */
	const char *const *secrets;
	const char *platform; /* only this machine's: "linux/amd64" */
	/* Of each RUN, as of a box. timeout_ms 0: none. All layers together, those of earlier
	 * builds and holes counted, hold disk_bytes at most. */
	const char *net;
	uint64_t mem_bytes, cpu_milli, pids, disk_bytes, timeout_ms;
	bool best_effort;
	const char *wall;
	int cancel_fd; /* above 0: when it can be read the build ends (COVE_INTERRUPTED) */
	void (*on_event)(void *arg, const struct cove_build_event *event);
	void *arg;
	const char *owner; /* of each RUN's box, as of a box; NULL: the operator */
	/* Above 0, instead of context: a tar, which may be compressed, read to its end and unpacked
	 * in a directory that goes with the call. `file` is in it then. */
	int context_fd;
};
struct cove_build_result {
	char name[256], id[65];
	unsigned steps, cached; /* of steps those whose layer was there */
	uint64_t bytes;
};
/* From a Dockerfile: docs of `cove image build`. An error of the file names its line. */
COVE_API int cove_image_build(struct cove *cove, const struct cove_build_options *options,
			      struct cove_build_result *ret, struct cove_error *err);

struct cove_workspace_info {
	char name[64];
	uint64_t bytes, files;
	bool in_use;
};
COVE_API int cove_workspaces(struct cove *cove, struct cove_workspace_info **ret,
			     struct cove_error *err);
COVE_API int cove_workspace_remove(struct cove *cove, const char *name, struct cove_error *err);
/* Gives what boxes wrote into a host directory as another user than the box's own (root inside) to
 * the caller; as root, to the directory's owner. Links are not followed. Idempotent: *ret_changed
 * is then 0. */
COVE_API int cove_workspace_chown(struct cove *cove, const char *dir, uint64_t *ret_changed,
				  struct cove_error *err);

/* ---- what changed ---- */

enum cove_change_kind { COVE_ADDED, COVE_CHANGED, COVE_REMOVED };
/* What about it changed. Times do not count. */
enum cove_change_what {
	COVE_CHANGE_TYPE = 1 << 0,
	COVE_CHANGE_MODE = 1 << 1,
	COVE_CHANGE_OWNER = 1 << 2,
	COVE_CHANGE_CONTENT = 1 << 3, /* of a file, a link's target, a device's number */
	COVE_CHANGE_ATTRS = 1 << 4    /* extended attributes */
};
enum cove_text_kind { COVE_TEXT_NONE, COVE_TEXT_LINES, COVE_TEXT_BINARY, COVE_TEXT_LARGE };

struct cove_change_side {
	unsigned mode; /* with its type, as st_mode; 0: there is none */
	unsigned uid, gid;
	uint64_t size;
};

struct cove_change {
	enum cove_change_kind kind;
	unsigned what;
	const char *path; /* in the box; any bytes */
	struct cove_change_side before, after;
	/* A directory with names whose paths are too long for any program: these are not looked
	 * at. */
	bool deep;
	enum cove_text_kind text_kind; /* COVE_TEXT_NONE unless it was asked for */
	const char *text;	       /* hunks as patch(1) takes them; any bytes */
	size_t text_len;
};

struct cove_diff_options {
	size_t size; /* sizeof(struct cove_diff_options) */
	/* Boxes, snapshots or images: "NAME", which means one of them in this order, "box:NAME",
	 * "snapshot:NAME", "image:NAME". to NULL: from is a box, and compared with what it started
	 * from. */
	const char *from, *to;
	const char *const *paths; /* absolute, NULL-terminated: only these and what is below */
	bool text;		  /* what changed in files, line by line */
	bool workspace;		  /* only the workspace */
	/* In order; what it points to is valid during the call. Not 0: no more. */
	int (*on_change)(void *arg, const struct cove_change *change);
	void *arg;
	bool *ret_live; /* a running box could not be frozen, and went on; may be NULL */
	/* It is not known what the box's named workspace held when the box was made, so that was
	 * not compared; may be NULL. */
	bool *ret_no_workspace;
};
/* What is different in the second, or in the box, its named workspace or copy of a host directory
 * (at /workspace) included. A running box is frozen while it is read, where this host can. */
COVE_API int cove_diff(struct cove *cove, const struct cove_diff_options *options,
		       struct cove_error *err);
/* ---- housekeeping ---- */

/* What takes how much of the disk. reclaimable_bytes is what cove_system_prune would free of it;
 * shared_bytes (of layers) is what more than one image, box or snapshot stands on. */
struct cove_usage_info {
	char what[32]; /* "images", "layers", "blobs", "boxes", ... */
	uint64_t count, bytes, shared_bytes, reclaimable_bytes;
};
COVE_API int cove_system_df(struct cove *cove, struct cove_usage_info **ret,
			    struct cove_error *err);

/* Called for each thing that is (or with dry_run would be) removed: kind is "layer", "blob", "box",
 * "image", "template" or "cache". */
typedef void cove_on_removed(void *arg, const char *kind, const char *name, uint64_t bytes);
struct cove_prune_options {
	size_t size; /* sizeof(struct cove_prune_options) */
	bool dry_run;
	bool all;   /* also images that no box uses, what is premade, and the build cache */
	bool boxes; /* also boxes that do not run */
	cove_on_removed *on_removed;
	void *arg;
};
struct cove_pruned {
	uint64_t layers, blobs, boxes, images, bytes;
	bool blobs_held; /* an image was being fetched, so blobs were left alone */
};
/* Layers and blobs that nothing refers to, the build cache included. Of options only dry_run and
 * on_removed count. */
COVE_API int cove_image_gc(struct cove *cove, const struct cove_prune_options *options,
			   struct cove_pruned *ret, struct cove_error *err);
/* The same, what crashes and interrupted transfers left, and what the options say. Nothing that is
 * referred to is ever removed. */
COVE_API int cove_system_prune(struct cove *cove, const struct cove_prune_options *options,
			       struct cove_pruned *ret, struct cove_error *err);

/* Called for each box that something happened to. action: "ended" (its keeper was gone: why),
 * "removed" ("ttl"), "started" (why it had ended), "failed" (why it could not be started, or
 * removed; it is tried again later). */
typedef void cove_on_reaped(void *arg, const char *action, const char *box, const char *cause);
struct cove_reap_options {
	size_t size; /* sizeof(struct cove_reap_options) */
	/* Also look for all that a crash left, which is otherwise done once a minute. */
	bool sweep;
	cove_on_reaped *on_action;
	void *arg;
};
struct cove_reaped {
	uint64_t ended, removed, started, failed;
	uint64_t next_ms; /* so long until the next pass is due; 0: there is more to do */
};
/* One pass over all boxes: those whose keeper is gone get their end written, with its cause; those
 * that do not run and whose ttl is over are removed where expire says so; those whose restart says
 * so are started, and no more than a few of each. What half-made or removed boxes left is deleted.
 * Any number of programs may do so at once. */
COVE_API int cove_reap(struct cove *cove, const struct cove_reap_options *options,
		       struct cove_reaped *ret, struct cove_error *err);

/* Called for each thing that is not as it was written. */
typedef void cove_on_damage(void *arg, const char *kind, const char *name, const char *problem);
struct cove_verified {
	uint64_t checked, damaged;
	/* Layers of snapshots that hold what no tar can: names that begin with `.wh.`, very many
	 * or very deep ones. Deep cannot compare them with what they were; that is no damage. */
	uint64_t not_compared;
};
/* Reads what is kept and says what is damaged: records, references, blobs by their hash; deep:
 * every file of every layer. Damage is no error of this call. */
COVE_API int cove_system_verify(struct cove *cove, bool deep, cove_on_damage *on_damage, void *arg,
				struct cove_verified *ret, struct cove_error *err);
/* ---- snapshots and forks ---- */

/* The files of a box as they are at one moment, its named workspace included. A box that runs is
 * copied while it runs and frozen for the rest of it. Never in it: host directories, memory,
 * secrets, keys. */
struct cove_snapshot_options {
	size_t size;
	const char *name; /* NULL: the box's name and the time */
	bool no_freeze;	  /* one that cannot be frozen here is copied as it runs */
	/* A rule that is kept with the box and applied after each snapshot of it: no more than so
	 * many, and none that is older; 0: as it is. */
	uint64_t keep, max_age_ms;
};
struct cove_snapshot_info {
	char name[64], id[72], box[64], workspace[64], storage[16];
	uint64_t created_ms, layers;
	uint64_t bytes, files;	      /* what was copied; 0: nothing, in the pool */
	uint64_t left_out;	      /* sockets and devices */
	uint64_t host_dirs;	      /* of the box, which are never in it */
	uint64_t frozen_us, total_us; /* what it took */
	bool unfrozen;		      /* the box ran on */
	bool inside;		      /* the box itself asked for it (cove-ctl) */
	char tags[256];		      /* with commas; cut where they do not fit */
	/* /workspace was a copy of a host directory (workspace_copy of the box): what was written
	 * to it and not merged is not in it. */
	bool copy_left_out;
};
COVE_API int cove_snapshot_create(struct cove *cove, const char *box,
				  const struct cove_snapshot_options *options,
				  struct cove_snapshot_info *ret, struct cove_error *err);
/* Oldest first; box NULL: of all. Returns the count; free with free(). */
COVE_API int cove_snapshots(struct cove *cove, const char *box, struct cove_snapshot_info **ret,
			    struct cove_error *err);
/* By name or tag. As one JSON object; free with free(). */
COVE_API int cove_snapshot_inspect(struct cove *cove, const char *name, char **ret_json,
				   struct cove_error *err);
COVE_API int cove_snapshot_remove(struct cove *cove, const char *name, struct cove_error *err);
COVE_API int cove_snapshot_tag(struct cove *cove, const char *name, const char *tag,
			       struct cove_error *err);
/* How many are kept, and how long; 0: no bound, both: no rule. */
struct cove_snapshot_rule {
	uint64_t keep, max_age_ms;
	bool of_image; /* as it is returned: the box has none of its own */
};
/* of: a box, or "image:NAME" for all boxes of an image that have no rule of their own. set NULL: as
 * it is; ret may be NULL. It is applied after the next snapshot, or by cove_snapshot_prune. */
COVE_API int cove_snapshot_rule(struct cove *cove, const char *of,
				const struct cove_snapshot_rule *set,
				struct cove_snapshot_rule *ret, struct cove_error *err);
/* Applies the rules of one box, or of all (NULL). *ret_removed (may be NULL): how many went. */
COVE_API int cove_snapshot_prune(struct cove *cove, const char *box, uint64_t *ret_removed,
				 struct cove_error *err);

/* A box's files become those of a snapshot of it, or of one that it came from. Its processes end,
 * with the cause "rollback"; it is started again if it ran. Refused while another box has its
 * workspace. What it sent meanwhile is not undone: the result says what. */
struct cove_rollback_options {
	size_t size;
	bool keep_workspace; /* that stays as it is */
	bool foreign;	     /* also a snapshot of any other box */
};
struct cove_rollback {
	size_t size;
	uint64_t sent;	    /* requests and connections that left since the snapshot */
	char hosts[1024];   /* where they went, with commas; cut where they do not fit */
	bool started;	    /* it ran, and runs again */
	bool sent_unknown;  /* the audit log could not be read: sent and hosts are not all */
	uint64_t host_dirs; /* of the box: what it wrote there is as it was */
};
COVE_API int cove_rollback(struct cove *cove, const char *box, const char *snapshot,
			   const struct cove_rollback_options *options, struct cove_rollback *ret,
			   struct cove_error *err);

/* New boxes that begin where a box is, or a snapshot; "box:" or "snapshot:" before the name says
 * which. Each has its own writes, limits, workspace (named like it), host name and keys; never the
 * session, secrets or grants. All are started. */
struct cove_fork_options {
	size_t size;
	const char *name;   /* of one; NULL: a fresh one */
	const char *prefix; /* of several: PREFIX-1, ... */
	uint64_t count;	    /* 0: one */
	bool no_freeze;
	int cancel_fd; /* above 0: when it can be read, all ends and none is left */
	/* The API key whose they are, by its id. NULL: what the source is of stays its own, be it a
	 * key's or the operator's. What is of one key is never another's (COVE_DENIED): a fork has
	 * the policy of what it came from, and with that its secrets. */
	const char *owner;
	/* Where not NULL: whether they have a copy of a host directory of their own at /workspace,
	 * which begins with the directory as it is: what the source wrote to its copy and did not
	 * merge is not in them. */
	bool *ret_copy_left_out;
};
/* The count; *ret are their names, free with free(). */
COVE_API int cove_fork(struct cove *cove, const char *source,
		       const struct cove_fork_options *options, char (**ret)[64],
		       struct cove_error *err);

/* What a box has become, as an image: one more layer above those it stands on; how programs are run
 * is taken from its image. COVE_LIMIT where its files, holes counted, hold more than its disk. */
COVE_API int cove_image_save(struct cove *cove, const char *box, const char *image,
			     struct cove_error *err);

/* Called for each image, box, workspace, snapshot and layer; of one that is left out name says
 * why. */
typedef void cove_on_item(void *arg, const char *kind, const char *name);
struct cove_backup_options {
	size_t size;	   /* sizeof(struct cove_backup_options) */
	bool with_secrets; /* values, as they are stored; otherwise none is in the file */
	bool force;	   /* replace the file; of a restore: what is here already */
	cove_on_item *on_item;
	void *arg;
	int fd; /* above 0: the file itself, open for both and empty or from its beginning on; then
		 * path is only what it is called in messages */
	/* Above 0, of an import: what the workspace's disk holds at most, whatever the file
	 * says. */
	uint64_t max_disk;
	/* Above 0, of what is written: how long the file may be, and what its disk is to have left
	 * at least. */
	uint64_t max_bytes, disk_reserve;
};
struct cove_backed_up {
	uint64_t boxes, images, snapshots, workspaces, layers, blobs, bytes;
	/* They run and could not be frozen, or hold more than can be packed. */
	uint64_t boxes_left_out, workspaces_left_out;
	uint64_t
		left_out; /* of boxes: sockets, devices, files of holes beyond what ext4 can hold */
};
/* Images, layers, blobs, snapshots, boxes, workspaces and policies in one file, which is whole or
 * absent. A running box is frozen while it is copied. Not in it: secrets, API keys, logs, the audit
 * log. */
COVE_API int cove_system_backup(struct cove *cove, const char *path,
				const struct cove_backup_options *options,
				struct cove_backed_up *ret, struct cove_error *err);
/* Nothing is made of a file that is cut or damaged, or that holds something which is here already
 * and force is not set. A box that runs is ended by force. Only for files of your own: a box's
 * record says what of the host it is shown. */
COVE_API int cove_system_restore(struct cove *cove, const char *path,
				 const struct cove_backup_options *options,
				 struct cove_backed_up *ret, struct cove_error *err);

/* One workspace or snapshot as a file of its own, with the layers that it stands on. It may be
 * somebody else's: name is what it is called here, NULL what it was there. Of the box that an
 * imported snapshot was, host directories, mounts and the policy are not brought along: it has the
 * balanced policy, or none. */
COVE_API int cove_workspace_export(struct cove *cove, const char *name, const char *path,
				   const struct cove_backup_options *options,
				   struct cove_error *err);
COVE_API int cove_workspace_import(struct cove *cove, const char *path, const char *name,
				   const struct cove_backup_options *options,
				   struct cove_error *err);
COVE_API int cove_snapshot_export(struct cove *cove, const char *name, const char *path,
				  const struct cove_backup_options *options,
				  struct cove_error *err);
COVE_API int cove_snapshot_import(struct cove *cove, const char *path, const char *name,
				  const struct cove_backup_options *options,
				  struct cove_error *err);

/* ---- bringing changes back ---- */

enum cove_merge_state {
	COVE_MERGE_TAKEN,
	COVE_MERGE_CONFLICT, /* changed on both sides */
	COVE_MERGE_LEFT_OUT
};

struct cove_merge_item {
	enum cove_merge_state state;
	enum cove_change_kind kind;
	const char *path; /* in the box; any bytes */
	const char *why;  /* of a conflict, or of what is left out */
};

struct cove_merge_options {
	size_t size;	  /* sizeof(struct cove_merge_options) */
	const char *from; /* a box */
	/* The box that it was forked from; NULL: the host directory that it works on a copy of. */
	const char *to;
	const char *const *paths; /* absolute, in the box, NULL-terminated: only these and below */
	/* What becomes of a conflict: "theirs" takes what `from` has, "ours" leaves what is there.
	 * NULL: nothing at all is done. */
	const char *prefer;
	bool dry_run;	/* only say what would be done */
	bool trust_dir; /* also what makes the host run something, and links that lead out */
	/* Each in order, before anything is done. Not 0: nothing is. May be NULL. */
	int (*on_item)(void *arg, const struct cove_merge_item *item);
	void *arg;
	bool keep_workspace; /* of a fork: the box's named workspace stays as it is */
	/* To a directory: above 0, when it can be read nothing is done, and what was brought there
	 * so far goes. Once it is done in part it is done whole. */
	int cancel_fd;
};

struct cove_merge_result {
	uint64_t taken, conflicts, left_out;
	bool done;	/* false: a dry run, or there are conflicts */
	bool finished;	/* what an earlier call had begun was brought to its end first */
	bool restarted; /* the box ran, was stopped and started again */
};

/* Brings what a box changed back to where it came from, whole or not at all: a call that is killed
 * once it has begun to write is finished by the next one, or by the box's next start. A box that
 * something is merged into is stopped for it, with the cause "merge", and started again; so is one
 * that runs and has new directories for the host. */
COVE_API int cove_merge(struct cove *cove, const struct cove_merge_options *options,
			struct cove_merge_result *ret, struct cove_error *err);

/* ---- API keys ---- */

struct cove_key_options {
	size_t size;
	const char *name;
	/* Lists, NULL-terminated: "read,run" (cove_key_scope), "mount:/abs" among them. NULL or
	 * empty: read, run, images, network and secrets. */
	const char *const *scopes;
	const char *quotas;	   /* "boxes=20,mem=8g,cpus=0.5,..."; NULL: none */
	const char *const *mounts; /* directories of this host, NULL-terminated; links followed */
};
struct cove_key_made {
	size_t size;
	char id[16];
	char token[96]; /* shown once: only a hash of it is kept */
};
/* ret->size is set before; wipe it when the token was passed on. */
COVE_API int cove_key_create(struct cove *cove, const struct cove_key_options *options,
			     struct cove_key_made *ret, struct cove_error *err);
struct cove_key_info {
	char name[64], id[16];
	uint64_t created_ms, revoked_ms; /* revoked_ms 0: it is good */
	bool damaged;			 /* only the id is known, and its token is none any more */
	char scopes[64];		 /* with commas */
	/* Quotas; 0: none. */
	uint64_t boxes, mem_bytes, cpu_milli, disk_bytes, snapshots, images;
	char mounts[1024]; /* a line each */
};
/* Oldest first, those that were revoked among them. Returns the count; free with free(). */
COVE_API int cove_keys(struct cove *cove, struct cove_key_info **ret, struct cove_error *err);
/* By name or id: its token is none from now on. What it made stays, and stays its own.
 * COVE_NOT_FOUND where there is none that is good. */
COVE_API int cove_key_remove(struct cove *cove, const char *name, struct cove_error *err);
/* The i-th scope and what it is for; NULL after the last. */
COVE_API const char *cove_key_scope(size_t i, const char **ret_summary);

/* ---- warm pools ---- */

/* Boxes of an image that are made ahead of time, so that a box takes a few milliseconds: held by a
 * server (cove serve), and kept as many. cove_create in that server takes one that fits what it is
 * asked for; what is the caller's (name, environment, limits, policy, labels, times, user) comes
 * to it then. */
struct cove_pool_options {
	size_t size;
	const char *image;   /* NULL: the usual one */
	uint64_t count;	     /* how many; 1 to 128 */
	uint64_t disk_bytes; /* their limit of disk; 0: as a box has without a word */
	const char *owner;   /* as in cove_box_options */
};
/* Makes the pool of that image and owner, or changes it. Nothing is made yet when it returns. */
COVE_API int cove_pool_set(struct cove *cove, const struct cove_pool_options *options,
			   struct cove_error *err);
struct cove_pool_info {
	char image[256];
	char owner[16]; /* the id of a key; empty: the operator's */
	uint64_t size;	/* how many there are to be, and */
	uint64_t ready; /* how many there are */
	uint64_t disk_bytes, created_ms;
	bool filled;   /* a server runs that keeps it full; without one there are none */
	char why[200]; /* not full: why */
};
/* Returns the count; free with free(). */
COVE_API int cove_pools(struct cove *cove, struct cove_pool_info **ret, struct cove_error *err);
/* COVE_NOT_FOUND where there is none. Its boxes that were not taken yet end. */
COVE_API int cove_pool_remove(struct cove *cove, const char *image, const char *owner,
			      struct cove_error *err);

/* ---- webhooks: a server tells a URL of what happens ---- */

struct cove_webhook_options {
	size_t size;
	const char *url;   /* http or https; of a key https */
	const char *types; /* "box.stopped,limit.hit"; NULL: all */
	const char *box;   /* NULL: all */
	const char *label; /* NAME or NAME=VALUE that boxes have; NULL: any */
	const char *owner; /* a key's id: its boxes alone, and public addresses only; NULL: all */
};
struct cove_webhook_made {
	size_t size;
	char id[24];
	char secret[96]; /* signs what is sent; shown once */
};
/* Of what happens from now on, sent by the server of this machine. ret->size is set before. */
COVE_API int cove_webhook_create(struct cove *cove, const struct cove_webhook_options *options,
				 struct cove_webhook_made *ret, struct cove_error *err);
struct cove_webhook_info {
	char id[24], url[1032], types[520], box[72], label[520], owner[16];
	uint64_t created_ms, cursor;   /* cursor: the event up to which it is */
	uint64_t delivered, failures;  /* failures: in a row */
	uint64_t next_ms, disabled_ms; /* not before; 0: it is not disabled */
	char reason[520];	       /* of the last failure */
};
/* Oldest first; owner NULL: all. Returns the count; free with free(). */
COVE_API int cove_webhooks(struct cove *cove, const char *owner, struct cove_webhook_info **ret,
			   struct cove_error *err);
/* owner NULL: whosever it is. COVE_NOT_FOUND. */
COVE_API int cove_webhook_remove(struct cove *cove, const char *id, const char *owner,
				 struct cove_error *err);
/* One that was disabled after many failures goes on where it was. */
COVE_API int cove_webhook_enable(struct cove *cove, const char *id, const char *owner,
				 struct cove_error *err);
/* Its last deliveries, a line of JSON each; *ret is yours, free it with free(). */
COVE_API int cove_webhook_log(struct cove *cove, const char *id, const char *owner, char **ret,
			      struct cove_error *err);

/* ---- walls ---- */

struct cove_wall_info {
	char name[64];
	bool ready;	    /* boxes can be started behind it */
	bool shared_kernel; /* their system calls reach the host's own kernel */
	bool is_default;
	bool is_min;	   /* boxes must have it, or a stronger one */
	unsigned strength; /* of two walls the higher one keeps more between a box and the host */
	char program[256]; /* what it is started with; empty: nothing, or it is not here */
	char version[64];  /* of that, as it says itself */
	uint64_t start_us; /* a box and its first command, when it was added; 0: not known */
	char holds[128], lacks[256]; /* for people */
	char remedy[128];	     /* not ready, or old: what makes it so */
	bool is_old;		     /* its program is, and boxes lack something by that */
};
COVE_API int cove_walls(struct cove *cove, struct cove_wall_info **ret, struct cove_error *err);
/* Tries a wall with a box, and notes what that took. program: a file that is copied for it; NULL:
 * the one that was added before, or is installed. What does not work is not kept; one that was
 * there before is there again. */
COVE_API int cove_wall_add(struct cove *cove, const char *name, const char *program,
			   struct cove_error *err);
COVE_API int cove_wall_remove(struct cove *cove, const char *name, struct cove_error *err);
/* From now on no box is made or started behind a weaker wall. NULL: behind any. */
COVE_API int cove_wall_set_min(struct cove *cove, const char *name, struct cove_error *err);
/* Empty: any may be. It may be one that this version does not know: then no box is made. */
COVE_API int cove_wall_min(struct cove *cove, char ret[64], struct cove_error *err);

#ifdef __cplusplus
}
#endif
#endif
