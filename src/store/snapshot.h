/*
 * Snapshots: the state of a box, kept. A name, the layers that are the box's files, and what the
 * box was.
 *
 *	snapshots/<name>	the record; lines under a sum (base/lines.h)
 *
 * The layers are in place before the record is written, and go when nothing refers to them any more
 * (refs.h). A snapshot holds no secret and no key: what a box is given by name is not in its files.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/limits_snapshot.h"
#include "store/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ids;
struct refs;
struct spec;

struct snapshot {
	char name[BOX_NAME_MAX + 1];
	const char *id;	    /* 64 hex digits, its own for ever */
	const char *parent; /* id of the one that the box came from; or NULL */
	const char *box;    /* of which it was taken; it may be gone */
	uint64_t box_created_ms;
	const char *layers[SPEC_LAYER_MAX]; /* bottom first; without the skeleton of "host" */
	size_t layer_count;
	const char *workspace; /* the name of the one that is part of it; or NULL */
	const char *workspace_layers[SPEC_LAYER_MAX];
	size_t workspace_layer_count;
	const char *spec;   /* of the box, as its record has it */
	const char *policy; /* its policy's text, where it has one of its own; or NULL */
	const char *tags[SNAPSHOT_TAGS_MAX];
	size_t tag_count;
	const char *storage; /* what the box's writes were on */
	uint64_t created_ms, bytes, files, left_out;
	uint64_t frozen_us, total_us;
	bool unfrozen;	/* the box ran on while it was copied */
	bool inside;	/* the box itself asked for it: core/snapshot_inside.h */
	bool transient; /* there for a moment, for a fork */
	char *text;	/* owned: all texts point into it */
};

/* By its name or one of its tags. ERR_NOT_FOUND, ERR_DAMAGED. snapshot_done also after a
 * failure. */
int snapshot_find(struct state *s, const char *name, struct snapshot *ret, struct err *e);
/* By its id. -ENOENT without a sentence. */
int snapshot_find_id(struct state *s, const char *id, struct snapshot *ret);
void snapshot_done(struct snapshot *s);

/* The record's text, which snapshot_take takes, also when it is -EBADMSG. */
int snapshot_format(const struct snapshot *s, struct buf *b);
int snapshot_take(struct snapshot *ret, char *text, size_t len);

/* All of them that can be read, oldest first. Free with snapshot_list_free. */
int snapshot_list(struct state *s, struct snapshot **ret, size_t *ret_count, struct err *e);
void snapshot_list_free(struct snapshot *list, size_t count);

/* Under the layers' lock, its layers being in place: writes the record, durable. is_new: ERR_EXISTS
 * where the name, or a tag like it, is taken. */
int snapshot_write(struct state *s, const struct snapshot *sn, bool is_new, struct err *e);

/* The record goes, and those of its layers that nothing else refers to. Not for its tag. */
int snapshot_remove(struct state *s, const struct ids *ids, const char *name, struct err *e);
/* Only if it is still the one that was listed, and got no tag since. */
int snapshot_remove_plain(struct state *s, const struct ids *ids, const struct snapshot *sn,
			  struct err *e);

/* Of this very box, not of an earlier one of that name? */
bool snapshot_is_of(const struct snapshot *sn, const struct spec *box);

/* Gives it one more name; another that has it loses it. */
int snapshot_tag(struct state *s, const char *name, const char *tag, struct err *e);

/* Deletes what was there for a moment and was left by a crash. */
void snapshot_sweep(struct state *s, const struct ids *ids);

/* For refs_collect. */
int snapshot_refs(struct state *s, struct refs *r, struct err *e);
