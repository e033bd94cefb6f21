/*
 * API keys: who may use this machine through its server, what for, and how much of it.
 *
 *	keys/<id>	a record, 0600 below a 0700 directory; lines under a sum
 *
 * An id is 8 random hex digits. It is no secret: what a key makes carries it in its name, which is
 * the key's namespace on this machine (key_name_in), and in a box's record (spec.owner). So an id
 * is never given twice while its record is there, and that of a key that was revoked stays. Only
 * one that is damaged goes when its key is removed.
 *
 * A token is a prefix, the id and a secret of 32 random bytes, all of it in hex behind the prefix:
 * cove_<id><64 digits>. With "e2b_" before the same digits it is the same token, as some clients
 * insist on that spelling. It is shown once. What is kept is the SHA-256 of the secret: a hash that
 * is slow on purpose keeps people's passwords from being guessed, and these bytes are random.
 *
 * A record is read whenever a token comes (some 20 us), so revoking holds from the next request on.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/sha.h"
#include "store/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spec;

enum {
	KEY_ID_SIZE = 9,		  /* with its NUL */
	KEY_HEX = 8 + 64,		  /* digits of a token */
	KEY_TOKEN_SIZE = 5 + KEY_HEX + 1, /* of the longer prefix, with a NUL */
};

/* What a key may do; one table in key.c says how each is called. */
enum key_scope {
	KEY_READ = 1 << 0,
	KEY_RUN = 1 << 1,
	KEY_IMAGES = 1 << 2,
	KEY_NETWORK = 1 << 3,
	KEY_SECRETS = 1 << 4,
	KEY_AUDIT = 1 << 5,
	KEY_METRICS = 1 << 6,
	KEY_ADMIN = 1 << 7, /* all of this machine, with no namespace */
};
#define KEY_SCOPES_DEFAULT ((unsigned)(KEY_READ | KEY_RUN | KEY_IMAGES | KEY_NETWORK | KEY_SECRETS))

enum key_quota_id {
	KEY_QUOTA_BOXES,
	KEY_QUOTA_MEM,	/* bytes */
	KEY_QUOTA_CPUS, /* thousandths of a processor */
	KEY_QUOTA_DISK, /* bytes */
	KEY_QUOTA_SNAPSHOTS,
	KEY_QUOTA_IMAGES,
	KEY_QUOTA_COUNT
};

struct key {
	char id[KEY_ID_SIZE];
	char name[BOX_NAME_MAX + 1];
	uint8_t hash[SHA256_BYTES]; /* of the secret's bytes */
	uint64_t created_ms, revoked_ms;
	unsigned scopes;		  /* key_scope */
	uint64_t quotas[KEY_QUOTA_COUNT]; /* 0: none */
	/* Directories of this host, absolute and without links, that boxes may be given, and all
	 * that is below them. */
	const char *mounts[KEY_MOUNTS_MAX];
	size_t mount_count;
	bool is_damaged; /* of a list: only the id is known; its token is none any more */
	char *text;	 /* owned when it was read: mounts point into it */
};

/* ---- what a caller asks for ---- */

/* More scopes for a key: "read,run". "mount:/abs" is a directory (key_take_mount). Cuts the list in
 * place; what is taken points into it. */
int key_take_scopes(struct key *k, char *list, struct err *e);
/* "boxes=20,mem=8g,cpus=0.5,disk=100g,snapshots=50,images=10"; cut in place. */
int key_take_quotas(struct key *k, char *list, struct err *e);
/* A directory: absolute, plain; borrowed. */
int key_take_mount(struct key *k, const char *dir, struct err *e);

/* The i-th scope or quota as people write it, in the order of the enum; NULL after the last. */
const char *key_scope_name(size_t i);
const char *key_scope_summary(size_t i);
const char *key_quota_name(size_t i);

/* ---- records ---- */

/* Makes a key of name, scopes, quotas and mounts; the rest is filled in. Durable when it returns.
 * ERR_EXISTS where a key that is not revoked has the name. */
int key_make(struct state *st, struct key *k, char ret_token[KEY_TOKEN_SIZE], struct err *e);
/* Whose token is this? Any bytes. -ENOENT for what is no token, of no key or with another secret:
 * the answer is the same, the secret is hashed and compared in each case, and how long that takes
 * says nothing about it. -EKEYREVOKED for one that was good once. key_done also after a failure. */
int key_find(struct state *st, const void *token, size_t len, struct key *ret, struct err *e);
/* By the name of one that is not revoked, or by the id of any. -ENOENT. key_done as above. */
int key_read(struct state *st, const char *name_or_id, struct key *ret, struct err *e);
/* All of them, oldest first, those that were revoked or are damaged among them. Free with
 * key_list_free. */
int key_list(struct state *st, struct key **ret, size_t *ret_count, struct err *e);
void key_list_free(struct key *list, size_t count);
/* From the next request on its token is none. -ENOENT where there is no such key any more. What it
 * made stays, and stays its own. */
int key_revoke(struct state *st, const char *name_or_id, struct err *e);
void key_done(struct key *k);
/* Readable (non-blocking) when a key may have been made or revoked: an inotify descriptor. */
int key_watch(struct state *st, int *ret_fd, struct err *e);

/* The text of a record. key_parse cuts it in place and the key points into it; unknown keys are an
 * error, so that an older Cove never half-understands what a key may do. */
int key_format(const struct key *k, struct buf *out);
int key_parse(struct key *ret, char *text, size_t len);

/* ---- what a key may ---- */

/* admin may all. */
bool key_may(const struct key *k, enum key_scope scope);
/* Is this directory, as realpath(3) has it, one of the key's or below one? What was asked once may
 * be another directory a moment later: give the key's list as cove_box_options.mount_roots too. */
bool key_may_mount(const struct key *k, const char *real_path);

/* ---- its namespace ---- */

enum key_kind { KEY_OF_BOX, KEY_OF_WORKSPACE, KEY_OF_SNAPSHOT, KEY_OF_IMAGE, KEY_OF_SECRET };

enum { KEY_NAME_SIZE = IMAGE_NAME_MAX + 1 };
/* What is called `name` by the key with this id is called so on this machine: <id>_<name> for a
 * box, a workspace, a snapshot or a tag of one, <id>/<name> for an image, <id>.<name> for a secret.
 * None of these but an image's is a name that a plain one could be taken for. (A dot stands behind
 * the names of boxes and workspaces already, in files of theirs.) The error names the limit: the
 * namespace takes 9 bytes of it. */
int key_name_in(const char *id, enum key_kind kind, const char *name, char ret[KEY_NAME_SIZE],
		struct err *e);
/* The other way: the part behind the namespace, or NULL where the name is not in it. */
const char *key_name_out(const char *id, enum key_kind kind, const char *name);
/* The part behind a namespace, whosever it is; all of a name that has none. */
const char *key_name_plain(enum key_kind kind, const char *name);
/* May a box of the key with this id begin with an image of this clean name: its own, or one that
 * all share, which this host's is not? The operator's boxes (NULL) with any. */
bool key_may_use_image(const char *id, const char *image);

/* ---- quotas ---- */

/* What a key has, or asks for. */
#define KEY_EVERYTHING UINT64_MAX
struct key_usage {
	uint64_t of[KEY_QUOTA_COUNT]; /* KEY_EVERYTHING: without a limit */
};
/* One box more, running or not: what it may use, and not what it happens to use now. Without a
 * limit that is everything. Its named workspace may take as much of the disk again. */
void key_usage_add_box(struct key_usage *u, const struct spec *box);
/* 1 << limit_id for each limit of a box that a quota of its owner counts: what is counted is kept.
 * NULL, and a key that is not of this machine, have none. */
int key_counted_limits(struct state *st, const char *owner, unsigned *ret, struct err *e);
/* ERR_LIMIT with the quota, what is used and asked, and the remedy, where `more` does not fit
 * beside `now`. Where nothing more is asked for nothing is refused. */
int key_quota_check(const struct key *k, const struct key_usage *now, const struct key_usage *more,
		    struct err *e);
