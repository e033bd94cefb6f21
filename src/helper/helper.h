/*
 * cove-store: the work that needs SQLite, libcurl, libarchive or jansson, in a process of its own.
 * core/helper.h starts it and says what goes over its descriptors.
 *
 * A verb is one row in the table of main.c and one function, in verb_<what>.c: it decodes its
 * arguments, calls db, oci or store, and answers. What it returns is as everywhere 0 or -errno and
 * *e: main turns that into the error line. It may be killed at any time, so what it makes is whole
 * or absent, and a child of its own ends with it (base/child.h).
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "storage/ids.h"
#include "store/state.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct helper {
	struct state state; /* open; what is missing is not made (state_make) */
	struct ids ids;	    /* the caller's */
	json_t *args;	    /* borrowed; an object */
	json_t *fds;	    /* borrowed; name -> number */
	int out;
};

struct helper_verb {
	const char *name;
	int (*run)(struct helper *h, struct err *e);
};

/* Arguments. ERR_INVALID names one that is missing or of another type; find: NULL where there is
 * none, or it is null or no string. */
int helper_str(struct helper *h, const char *key, const char **ret, struct err *e);
const char *helper_find_str(struct helper *h, const char *key);
uint64_t helper_u64(struct helper *h, const char *key, uint64_t otherwise);
bool helper_bool(struct helper *h, const char *key);
/* A descriptor of the caller's by its name, borrowed. */
int helper_fd(struct helper *h, const char *name, int *ret, struct err *e);

/* Answers: text is lines (lines_put), or for a result anything without a NUL. -EPIPE: the
 * caller has gone, so end. */
int helper_progress(struct helper *h, struct buf *lines);
int helper_result(struct helper *h, const char *text, struct err *e);
/* The same of a JSON value, which is taken. */
int helper_result_json(struct helper *h, json_t *value, struct err *e);

/* ---- the verbs ---- */

int verb_cache_find(struct helper *h, struct err *e);
int verb_cache_put(struct helper *h, struct err *e);
int verb_cache_trim(struct helper *h, struct err *e);
int verb_df(struct helper *h, struct err *e);
int verb_expand(struct helper *h, struct err *e);
int verb_unpack(struct helper *h, struct err *e);
int verb_gc(struct helper *h, struct err *e);
int verb_verify(struct helper *h, struct err *e);
int verb_pull(struct helper *h, struct err *e);
int verb_export(struct helper *h, struct err *e);
int verb_import(struct helper *h, struct err *e);
int verb_versions(struct helper *h, struct err *e);
