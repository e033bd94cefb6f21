/*
 * What a box is: everything decided at create, kept in its record, and given to its keeper.
 *
 * All strings are borrowed: from the caller when a spec is built, from the text it was parsed from
 * otherwise. The form on disk is base/lines.h.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum persistence { PERSIST_WORKSPACE, PERSIST_BOX };

struct spec_mount {
	const char *src; /* as given: absolute, or relative to the workspace */
	const char *dst;
	const char *env; /* NULL, or the variable set to dst in every command */
	const char
		*owner; /* of an absolute one, when the box was made: "uid:gid"; NULL: not known */
	bool read_only;
};

/* Where a box has its workspace. */
#define WORKSPACE_DST "/workspace"
/* In the box's own volume: what it wrote to its copy of a host directory (upper/ in there). */
#define WORKSPACE_COPY "copy"

/* What a box may use. One table in spec.c says how each is written and named. */
enum limit_id {
	LIMIT_MEM,	 /* bytes, page cache, tmpfs and page tables included; swap is off */
	LIMIT_CPUS,	 /* thousandths of a processor */
	LIMIT_PIDS,	 /* processes and threads */
	LIMIT_DISK,	 /* bytes of everything it can write, host directories excepted */
	LIMIT_FILES,	 /* open files of one process */
	LIMIT_IO,	 /* bytes per second, each way */
	LIMIT_TTL,	 /* ms from its start to its end */
	LIMIT_IDLE,	 /* ms without a running command or a request */
	LIMIT_NET_BYTES, /* through the door, both ways together */
	LIMIT_NET_CONNS, /* through the door, at once */
	LIMIT_COUNT
};

/* The key in a record ("mem_bytes", "cpu_milli", ...), the flag that a person would use ("--mem"),
 * and the word that begins a line about it among what is not enforced ("memory"). */
const char *limit_key(enum limit_id id);
const char *limit_flag(enum limit_id id);
const char *limit_word(enum limit_id id);
/* The value as a person writes it: "512 MiB", "0.5", "90 s"; "none" for 0. */
enum { LIMIT_TEXT = 48 };
const char *limit_format(enum limit_id id, uint64_t value, char ret[LIMIT_TEXT]);

/* Is that a value it may have? 0 is none. */
int limit_check(enum limit_id id, uint64_t value, struct err *e);

/* What happens when LIMIT_TTL or LIMIT_IDLE is over: "stop", "remove", "pause". */
enum expiry { EXPIRE_STOP, EXPIRE_REMOVE, EXPIRE_PAUSE };
/* When a box that ended is started again: "no", "on-reboot", "always" (core/reap.h). */
enum restart { RESTART_NO, RESTART_ON_REBOOT, RESTART_ALWAYS };

const char *expiry_name(enum expiry e);
const char *restart_name(enum restart r);
bool expiry_parse(const char *name, enum expiry *ret);
bool restart_parse(const char *name, enum restart *ret);

struct spec {
	const char *name;
	const char *image; /* name of the image, "host" for the host's own */
	/* What it stands on, bottom first, and what the image says of its commands. Without layers
	 * (the host's image, a box of an older Cove) the image is looked up at each start. */
	const char *layers[SPEC_LAYER_MAX];
	size_t layer_count;
	const char *base_user, *base_cwd; /* may be NULL */
	const char *base_env[SPEC_ENV_MAX];
	size_t base_env_count;
	const char *wall;	     /* "native" */
	const char *workspace;	     /* name of a workspace, or NULL */
	const char *workspace_dir;   /* absolute host directory instead, or NULL */
	const char *workspace_owner; /* of that, as with a mount */
	const char *from;	     /* id of the snapshot that it came from, or NULL */
	bool renew;	     /* what no two boxes may share is made anew at its first start */
	bool workspace_copy; /* the box works on a copy of that directory, its own */
	const char *user;    /* NULL: the image's user */
	const char *cwd;     /* NULL: /workspace, or the user's home */
	const char *session; /* the caller's own id, or NULL */
	const char *owner;   /* id of the API key whose it is (key.h); NULL: the operator's */
	enum persistence persistence;
	bool one_shot;	     /* removed by its keeper when its first client is gone */
	uint64_t timeout_ms; /* default for its commands, 0 none */
	uint64_t created_ms;
	uint64_t limits[LIMIT_COUNT]; /* 0: none */
	unsigned limits_asked;	      /* 1 << id: the caller's own word, to be kept or refused */
	bool best_effort;	      /* what cannot be kept is listed, not refused */
	bool strict;		      /* no_new_privs, and no root inside */
	bool trust_dir;	     /* nothing in a host directory is made read-only: keeper/pins.c */
	bool ptrace;	     /* its processes may trace each other */
	const char *ctl;     /* what it may ask for itself (wire/ctl.h); NULL: nothing */
	const char *storage; /* "plain", "loop", "tmpfs"; NULL: what fits */
	enum expiry expiry;
	enum restart restart;
	const char *on_start; /* a shell line that is run whenever it has started, or NULL */
	/* Its policy: a preset's name, a list (net.h) or "file" (boxes/<name>/policy). NULL or
	 * closed: no network at all, whatever is granted later. */
	const char *net;
	const char *env[SPEC_ENV_MAX]; /* NAME=VALUE */
	size_t env_count;
	const char *labels[SPEC_LABEL_MAX]; /* NAME=VALUE */
	size_t label_count;
	struct spec_mount mounts[SPEC_MOUNT_MAX];
	size_t mount_count;
};

/* Appends a formatted spec; parses one. spec_parse writes into text (unescaping in place) and the
 * spec points into it. Unknown keys are an error, so that an older Cove never half-understands. */
int spec_format(const struct spec *s, struct buf *out);
int spec_parse(struct spec *ret, char *text, size_t len, struct err *e);

/* One line of that form, for a file that holds more than a spec (the keeper's configuration). The
 * value is borrowed. -ENOENT for a key that is not of a spec, -EBADMSG for a bad or repeated
 * one. */
int spec_take(struct spec *s, const char *key, const char *value);

/* Checks everything that can be checked without touching the disk: names, paths, counts. */
int spec_check(const struct spec *s, struct err *e);

/* "SRC:DST[:ro][,env=NAME]" -> mount; text is cut in place and borrowed. */
int spec_mount_parse(struct spec_mount *ret, char *text, struct err *e);

/* <prefix>-<16 hex of the SHA-256 of id>. prefix may be NULL: "session". */
int spec_session_name(const char *prefix, const char *id, char ret[BOX_NAME_MAX + 1],
		      struct err *e);
