/*
 * YAML (and so JSON) as a small tree whose nodes know their lines. Only the plain part of YAML:
 * mappings with text as keys, lists, and text. Refused, with the line: anchors and aliases, tags,
 * more than one document, a key twice, control characters in text, and what goes beyond the limits
 * (DOOR_POLICY_MAX bytes, POLICY_NODES_MAX nodes, POLICY_DEPTH_MAX levels, POLICY_KEYS_MAX keys).
 */
#pragma once

#include "base/err.h"
#include "door/arena.h"

#include <stdbool.h>
#include <stddef.h>

/* Whose text is read, for messages: "NAME:LINE: sentence". */
struct source {
	const char *name; /* borrowed */
	unsigned line;	  /* of the last error */
	struct err *err;  /* may be NULL */
};

/* Always -EINVAL. */
int source_error(struct source *s, unsigned line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

int source_no_memory(struct source *s);

enum policy_node_kind { NODE_TEXT, NODE_LIST, NODE_MAP };

struct policy_node {
	enum policy_node_kind kind;
	bool quoted; /* a text in quotes: never a number, true, false or nothing */
	unsigned line;
	const char *key; /* in a mapping */
	unsigned key_line;
	const char *text; /* never NULL; "" for a list or a mapping */
	size_t count;	  /* of what is below */
	struct policy_node *first, *next;
	/* Of a list or a mapping: is it written in brackets; the column of its first item (from
	 * 0, in characters); where it ends: the bracket, or the line of what comes after it. */
	bool flow;
	unsigned column, end_line, end_column;
};

/* The root; all of it is in the arena. Text with no document in it is an error. */
int policy_tree_parse(struct arena *a, const struct policy_node **ret, struct source *src,
		      const char *text, size_t len);
