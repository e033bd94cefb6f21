/*
 * A rollback that has begun: boxes/<name>/rollback says what the box is to become. It is written
 * before anything is changed and goes when all is done; whoever finds it does the rest first.
 */
#pragma once

#include "base/err.h"
#include "base/limits.h"
#include "store/state.h"

#include <stdbool.h>
#include <stddef.h>

struct refs;

#define ROLLBACK_FILE "rollback"

struct rollback {
	const char *token;     /* of this one, for what must be done once */
	const char *from;      /* id of the snapshot; NULL: none */
	const char *workspace; /* that is rolled back, too; or NULL */
	const char *layers[SPEC_LAYER_MAX];
	size_t layer_count;
	const char *workspace_layers[SPEC_LAYER_MAX];
	size_t workspace_layer_count;
	bool renew; /* the snapshot was of another box */
	char *text; /* owned: all texts point into it */
};

/* 1: there is one; 0: none. Durable when rollback_write returns. */
int rollback_read(int box_fd, struct rollback *ret, struct err *e);
int rollback_write(int box_fd, const struct rollback *r, struct err *e);
bool rollback_is_there(int box_fd);
int rollback_end(int box_fd, struct err *e);
void rollback_done(struct rollback *r);

/* For refs_collect. */
int rollback_refs(struct state *s, struct refs *refs, struct err *e);
