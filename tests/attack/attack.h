/*
 * The part of the attack suite that runs inside a box: one static program, `attack NAME` runs one
 * case. What a case is for and what "held" means stands in its CASE line. Cases register
 * themselves; tools/attack asks `attack --list` for them.
 *
 * A case answers with one line on stdout (HELD, BROKE or NA, and why) and the exit status 0, 1 or
 * 2. It must not do harm where the attack works: what would change the host is opened and not
 * written, or asked for with arguments that cannot be carried out.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { HELD_STATUS = 0, BROKE_STATUS = 1, NA_STATUS = 2 };

/* How the runner runs a case. */
enum case_flags {
	AS_USER = 1 << 0, /* as the box's user */
	AS_ROOT = 1 << 1, /* as root inside, where there is one */
	AS_BOTH = AS_USER | AS_ROOT,
	SMALL = 1 << 2,	    /* in a box with small limits */
	OOM = 1 << 3,	    /* the result must say oom_killed, where memory is limited */
	PIDS = 1 << 4,	    /* the box must be in its pids limit, where there is one */
	TTY = 1 << 5,	    /* with a terminal */
	SLOW = 1 << 6,	    /* not in --quick */
	NEEDS_MEM = 1 << 7, /* not applicable where memory cannot be limited */
	NEEDS_PIDS = 1 << 8,
	NEEDS_DISK = 1 << 9,
	NEEDS_CPU = 1 << 10,
};

struct attack_case {
	const char *name, *line, *held;
	unsigned flags;
	int (*run)(void);
};

#define CASE(id, line_, flags_, held_)                                                     \
	static int case_##id(void);                                                        \
	static const struct attack_case row_##id = {#id, line_, held_, flags_, case_##id}; \
	static const struct attack_case *const entry_##id                                  \
		__attribute__((used, section("attack_cases"))) = &row_##id;                \
	static int case_##id(void)

int held(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int broke(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int not_applicable(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Held if a call failed with EPERM, EACCES or ENOSYS: refused before its arguments were looked at.
 * result is what syscall() gave, with errno as it left it. */
int refused(const char *what, long result);
/* Held if a call failed, whatever the reason. */
int failed(const char *what, long result);
bool is_refusal(int code);

/* The canaries, from the environment that the runner gives. */
const char *canary_path(void);	      /* of a host file */
const char *canary_mark(void);	      /* how its content begins */
long canary_number(const char *name); /* CANARY_PID, CANARY_PORT, CANARY_SHM, ... or -1 */
const char *canary_text(const char *name);

/* Does the file at path below dir_fd hold the canary's mark? */
bool has_canary(int dir_fd, const char *path);
/* Writes bytes over the canary where path leads to it; true if that was possible. */
bool can_write(const char *path);

/* Reads at most size - 1 bytes of a file as text; the length or -errno. */
ssize_t slurp(const char *path, char *text, size_t size);
/* A line "key: value" of /proc/self/status as a number of that base; -1 without. */
long long status_number(const char *key, int base);

/* Held with that text if init runs, is not stopped, and still reaps an orphan; broke otherwise. */
int held_by_init(const char *text);

/* Runs work in a child and waits for it, at most seconds. The wait status, or -1 after a kill. */
int in_child(int (*work)(void *), void *arg, unsigned seconds);
/* A directory that can be written to; /tmp, or the home. */
const char *scratch_dir(void);
