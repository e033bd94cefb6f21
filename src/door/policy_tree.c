/*
 * libyaml's events into a tree; see tree.h.
 *
 * How it works: the parser gives one event after another and looks ahead no further than one line,
 * so a limit that is passed ends the work at once. The stack of open lists and mappings is an array
 * of POLICY_DEPTH_MAX levels. All nodes and texts are in one arena.
 */
#include "door/policy_tree.h"

#include "base/limits.h"
#include "door/arena.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

struct policy_level {
	struct policy_node *node;
	struct policy_node **end; /* where the next child goes */
	const char *key;	  /* read, its value is not; NULL otherwise */
	unsigned key_line;
};

struct policy_builder {
	yaml_parser_t yaml;
	struct arena *arena;
	struct policy_node *root;
	struct source *src;
	const char *text;
	size_t nodes;
	struct policy_level levels[POLICY_DEPTH_MAX];
	unsigned depth;
	bool ended; /* the document */
};

int source_error(struct source *s, unsigned line, const char *fmt, ...)
{
	char sentence[232];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(sentence, sizeof(sentence), fmt, ap);
	va_end(ap);
	s->line = line;
	return err_set(s->err, ERR_INVALID, EINVAL, "%.80s:%u: %s", s->name, line, sentence);
}

int source_no_memory(struct source *s)
{
	return err_set(s->err, ERR_FULL, ENOMEM, "%.80s: no memory", s->name);
}

static const char *copy_text(struct policy_builder *b, const yaml_event_t *ev, unsigned line)
{
	const yaml_char_t *p = ev->data.scalar.value;
	size_t n = ev->data.scalar.length;
	const char *copy;

	for (size_t i = 0; i < n; i++)
		if (p[i] < ' ' || p[i] == 0x7f) {
			source_error(b->src, line, "text with a line break or a control character");
			return NULL;
		}
	copy = arena_strdup(b->arena, (const char *)p, n);
	if (!copy)
		source_no_memory(b->src);
	return copy;
}

/* Into the list or mapping that is open, or as the root. */
static void place(struct policy_builder *b, struct policy_node *node)
{
	struct policy_level *l = b->depth ? &b->levels[b->depth - 1] : NULL;

	if (!l) {
		b->root = node;
		return;
	}
	node->key = l->key;
	node->key_line = l->key_line;
	l->key = NULL;
	*l->end = node;
	l->end = &node->next;
	l->node->count++;
}

static int take_value(struct policy_builder *b, const yaml_event_t *ev)
{
	unsigned line = (unsigned)ev->start_mark.line + 1;
	struct policy_node *node;

	if (++b->nodes > POLICY_NODES_MAX)
		return source_error(b->src, line, "more than %u values", POLICY_NODES_MAX);
	node = arena_alloc(b->arena, sizeof(*node));
	if (!node)
		return source_no_memory(b->src);
	node->line = line;
	node->text = "";
	if (ev->type == YAML_SCALAR_EVENT) {
		node->kind = NODE_TEXT;
		node->quoted = ev->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
		node->text = copy_text(b, ev, line);
		if (!node->text)
			return -EINVAL;
		place(b, node);
		return 0;
	}
	node->kind = ev->type == YAML_MAPPING_START_EVENT ? NODE_MAP : NODE_LIST;
	node->flow = node->kind == NODE_MAP
			     ? ev->data.mapping_start.style == YAML_FLOW_MAPPING_STYLE
			     : ev->data.sequence_start.style == YAML_FLOW_SEQUENCE_STYLE;
	node->column = (unsigned)ev->start_mark.column;
	if (b->depth == POLICY_DEPTH_MAX)
		return source_error(b->src, line, "nested deeper than %u levels", POLICY_DEPTH_MAX);
	place(b, node);
	b->levels[b->depth++] = (struct policy_level){.node = node, .end = &node->first};
	return 0;
}

/* Anchors, aliases and tags make a text mean more than it says. */
static int check_plain(struct policy_builder *b, const yaml_event_t *ev)
{
	unsigned line = (unsigned)ev->start_mark.line + 1;
	const yaml_char_t *anchor = NULL, *tag = NULL;

	if (ev->type == YAML_ALIAS_EVENT) {
		anchor = ev->data.alias.anchor;
	} else if (ev->type == YAML_SCALAR_EVENT) {
		anchor = ev->data.scalar.anchor;
		tag = ev->data.scalar.tag;
	} else if (ev->type == YAML_SEQUENCE_START_EVENT) {
		anchor = ev->data.sequence_start.anchor;
		tag = ev->data.sequence_start.tag;
	} else if (ev->type == YAML_MAPPING_START_EVENT) {
		anchor = ev->data.mapping_start.anchor;
		tag = ev->data.mapping_start.tag;
	}
	if (anchor && ev->type == YAML_ALIAS_EVENT)
		return source_error(b->src, line,
				    "a text that begins with '*' must be quoted: '*%.40s'",
				    (const char *)anchor);
	if (anchor)
		return source_error(b->src, line,
				    "anchors and aliases ('&' and '*') are not taken; "
				    "quote a text that begins with one");
	if (tag)
		return source_error(b->src, line,
				    "tags ('!') are not taken; quote a text that begins with one");
	return 0;
}

static int take_event(struct policy_builder *b, const yaml_event_t *ev)
{
	struct policy_level *l = b->depth ? &b->levels[b->depth - 1] : NULL;
	unsigned line = (unsigned)ev->start_mark.line + 1;
	int r = check_plain(b, ev);

	if (r < 0)
		return r;
	switch (ev->type) {
	case YAML_DOCUMENT_START_EVENT:
		if (b->ended)
			return source_error(b->src, line, "a second document; a policy is one");
		return 0;
	case YAML_DOCUMENT_END_EVENT:
		b->ended = true;
		return 0;
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		b->depth--;
		l->node->end_line = line;
		l->node->end_column = (unsigned)ev->start_mark.column;
		return 0;
	case YAML_SCALAR_EVENT:
	case YAML_SEQUENCE_START_EVENT:
	case YAML_MAPPING_START_EVENT:
		if (!l || l->node->kind != NODE_MAP || l->key)
			return take_value(b, ev);
		break;
	default:
		return 0;
	}
	/* The key of a mapping. */
	if (ev->type != YAML_SCALAR_EVENT)
		return source_error(b->src, line, "a key must be text, not a list or a mapping");
	if (l->node->count >= POLICY_KEYS_MAX)
		return source_error(b->src, line, "more than %u keys in one mapping",
				    POLICY_KEYS_MAX);
	l->key = copy_text(b, ev, line);
	l->key_line = line;
	if (!l->key)
		return -EINVAL;
	for (const struct policy_node *n = l->node->first; n; n = n->next)
		if (strcmp(n->key, l->key) == 0)
			return source_error(b->src, line,
					    "'%.40s' stands here twice, first in line %u; keep one",
					    l->key, n->key_line);
	return 0;
}

/* A host such as *.example.org that lost its quotes is not even an alias to the parser. */
static int fail_yaml(struct policy_builder *b, unsigned line)
{
	const char *context = b->yaml.context ? b->yaml.context : "";

	if (strstr(context, "alias"))
		return source_error(b->src, line,
				    "a text that begins with '*' must be quoted: '*.example.org'");
	if (strstr(context, "anchor"))
		return source_error(b->src, line, "a text that begins with '&' must be quoted");
	return source_error(b->src, line, "not YAML: %s",
			    b->yaml.problem ? b->yaml.problem : "unreadable");
}

static int build(struct policy_builder *b)
{
	size_t line;
	bool over = false;
	yaml_event_t ev;
	int r = 0;

	while (r == 0 && !over) {
		if (!yaml_parser_parse(&b->yaml, &ev)) {
			if (b->yaml.error == YAML_MEMORY_ERROR)
				return source_no_memory(b->src);
			line = b->yaml.problem_mark.line + 1;
			if (b->yaml.error == YAML_READER_ERROR) {
				line = 1;
				for (size_t i = 0; i < b->yaml.problem_offset; i++)
					line += b->text[i] == '\n';
			}
			return fail_yaml(b, (unsigned)line);
		}
		over = ev.type == YAML_STREAM_END_EVENT;
		r = take_event(b, &ev);
		yaml_event_delete(&ev);
	}
	if (r == 0 && !b->root)
		return source_error(b->src, 1,
				    "empty; the least that is a policy is 'version: 1' and "
				    "'rules: []', which lets nothing out");
	return r;
}

int policy_tree_parse(struct arena *a, const struct policy_node **ret, struct source *src,
		      const char *text, size_t len)
{
	struct policy_builder b = {.arena = a, .src = src, .text = text};
	int r;

	if (len > DOOR_POLICY_MAX)
		return source_error(src, 1, "larger than %u bytes", DOOR_POLICY_MAX);
	if (!yaml_parser_initialize(&b.yaml))
		return source_no_memory(src);
	yaml_parser_set_encoding(&b.yaml, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&b.yaml, (const unsigned char *)text, len);
	r = build(&b);
	yaml_parser_delete(&b.yaml);
	*ret = b.root;
	return r;
}
