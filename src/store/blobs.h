/*
 * Blobs: bytes of others, kept as they came, named after their SHA-256: manifests, configurations
 * and compressed layers of images that came from a registry or an archive.
 *
 *	blobs/<digest>	      a whole blob, its digest in 64 hex digits: it has this name only once
 *			      its hash was checked and its bytes are on disk
 *	blobs/.part-<digest>  a part of one, from its beginning. Whoever writes it holds flock(2)
 *			      on it; whoever comes later goes on where it ends
 *	blobs/.new-<random>   one whose digest its writer does not know yet
 *	blobs/bad-<digest>    one whose content had another hash when it was looked at: no blob any
 *			      more, so that who needs it gets it again; goes when it is back
 *
 * A killed writer leaves a part that the next one takes up, and a blob is whole or absent. A part
 * that others have damaged is found out at the end, by its hash, and dropped.
 */
#pragma once

#include "base/err.h"
#include "base/sha.h"
#include "store/state.h"

#include <stdbool.h>
#include <stdint.h>

enum { BLOB_DIGEST = 65 }; /* 64 lower-case hex digits and a NUL */
#define BLOB_SIZE_UNKNOWN UINT64_MAX

bool blobs_is_digest(const char *digest);

/* Is it there? Its content is not looked at. */
bool blobs_has(struct state *s, const char *digest);
/* The same with the size that it is said to have (BLOB_SIZE_UNKNOWN: any): a disk that was full or
 * went down leaves some that are shorter. */
bool blobs_has_size(struct state *s, const char *digest, uint64_t size);
/* ERR_NOT_FOUND. The descriptor is for reading; ret_size may be NULL. */
int blobs_open(struct state *s, const char *digest, int *ret_fd, uint64_t *ret_size, struct err *e);
/* All of a small one: ERR_LIMIT beyond max. Owned and NUL-terminated. */
int blobs_read(struct state *s, const char *digest, size_t max, char **ret, size_t *ret_len,
	       struct err *e);
/* Does its content still have the hash that is its name? ERR_DAMAGED (-EBADMSG) if not: then it is
 * moved aside. Costs the reading of all of it. */
int blobs_verify(struct state *s, const char *digest, struct err *e);
/* Was it moved aside, and is not back? */
bool blobs_is_aside(struct state *s, const char *digest);
/* The sentence for that. */
int blobs_damaged(const char *digest, struct err *e);

/* The digests of all, sorted. Free with state_names_free. */
int blobs_list(struct state *s, char ***ret_digests, size_t *ret_count, struct err *e);
/* The same of those that were moved aside. */
int blobs_list_aside(struct state *s, char ***ret_digests, size_t *ret_count, struct err *e);

/* ---- writing ---- */

struct blob_put {
	int dir_fd, fd;		  /* owned; -1 when it is over */
	char name[80];		  /* of the part */
	char digest[BLOB_DIGEST]; /* "" until the end where it was not known */
	uint64_t size;		  /* that it is said to have; BLOB_SIZE_UNKNOWN */
	uint64_t have;		  /* bytes written so far, those of earlier writers too */
	uint64_t resumed;	  /* of them by earlier writers */
	struct sha sha;
};

/*
 * Begins to write one, or goes on with a part: p->have says where. digest NULL: it is named after
 * what comes. 0; 1 when it is there already, with that size; -EBUSY (ERR_CONFLICT) while another
 * process writes it.
 */
int blobs_begin(struct state *s, const char *digest, uint64_t size, struct blob_put *p,
		struct err *e);
/* ERR_PROTOCOL (-EFBIG) when more comes than was said. */
int blobs_add(struct state *s, struct blob_put *p, const void *data, size_t n, struct err *e);
/* Throws away what came so far and begins again, with the lock held. */
int blobs_restart(struct state *s, struct blob_put *p, struct err *e);
/* Checks and names it. ERR_PROTOCOL (-EBADMSG) when it is not what its digest or size says: nothing
 * of it stays. After an error of the disk the part stays. p is over either way. */
int blobs_end(struct state *s, struct blob_put *p, struct err *e);
/* Stops writing: the part stays for the next one. A zeroed or ended one is not to be given. */
void blobs_leave(struct blob_put *p);
/* Stops writing, and drops what came. */
void blobs_drop(struct blob_put *p);

/* A small one in one step. digest as above; ret_digest may be NULL. */
int blobs_put(struct state *s, const char *digest, const void *data, size_t n,
	      char ret_digest[BLOB_DIGEST], struct err *e);

/* ---- removing ---- */

/* While *ret_fd is open no blob is removed as unused: for those that no image names yet. */
int blobs_hold(struct state *s, int *ret_fd, struct err *e);
/* The other side: to look which are unused and to remove them. ERR_CONFLICT (-EBUSY) while they are
 * held. */
int blobs_lock(struct state *s, int *ret_fd, struct err *e);
/* Also what was moved aside. Missing is success. */
int blobs_remove(struct state *s, const char *digest, struct err *e);
/* Removes what killed writers of blobs without a known digest left: none can go on with that. */
void blobs_sweep(struct state *s);
/* Removes parts that no process writes, and says how many bytes that were. */
int blobs_drop_parts(struct state *s, uint64_t *ret_bytes, struct err *e);
/* The same without removing any. The caller has the lock: no one begins a part meanwhile. */
int blobs_count_parts(struct state *s, uint64_t *ret_bytes, struct err *e);
