/* Secrets that commands printed; see kept.h. */
#include "door/kept.h"

#include "base/locked.h"
#include "base/str.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct kept_secret {
	struct kept_secret *next;
	struct kept_value value; /* its data is owned, locked */
	char name[SECRET_NAME_MAX + 1];
	uint64_t until_ms, wall_from_ms, wall_until_ms;
};

/* *at becomes the one after it. */
static void unlink_one(struct kept_secret **at)
{
	struct kept_secret *s = *at;

	*at = s->next;
	locked_free((void *)(uintptr_t)s->value.data);
	free(s);
}

static struct kept_secret **find(struct kept_secrets *k, const char *name)
{
	struct kept_secret **at = &k->first;

	while (*at && strcmp((*at)->name, name) != 0)
		at = &(*at)->next;
	return at;
}

/* A wall clock that was set back says nothing about how old it is. */
static bool is_over(const struct kept_secret *s, uint64_t now_ms, uint64_t wall_ms)
{
	return now_ms >= s->until_ms || wall_ms >= s->wall_until_ms || wall_ms < s->wall_from_ms;
}

void kept_drop(struct kept_secrets *k, const char *name)
{
	struct kept_secret **at = find(k, name);

	if (*at)
		unlink_one(at);
}

int kept_put(struct kept_secrets *k, const struct kept_value *v, uint64_t now_ms, uint64_t wall_ms)
{
	struct kept_secret *s = calloc(1, sizeof(*s));
	void *data = s ? locked_alloc(v->len) : NULL;

	kept_drop(k, v->name);
	if (!data || !str_copy(s->name, sizeof(s->name), v->name)) {
		locked_free(data);
		free(s);
		return -ENOMEM;
	}
	memcpy(data, v->data, v->len);
	s->value = *v;
	s->value.name = s->name;
	s->value.data = data;
	s->until_ms = now_ms + v->for_ms;
	s->wall_from_ms = wall_ms;
	s->wall_until_ms = wall_ms + v->for_ms;
	s->next = k->first;
	k->first = s;
	return 0;
}

const struct kept_value *kept_find(struct kept_secrets *k, const char *name,
				   const struct secret_stamp *stamp, uint64_t now_ms,
				   uint64_t wall_ms)
{
	struct kept_secret **at = find(k, name);

	if (!*at)
		return NULL;
	if (!is_over(*at, now_ms, wall_ms) && (*at)->value.stamp.inode == stamp->inode &&
	    (*at)->value.stamp.changed_ns == stamp->changed_ns)
		return &(*at)->value;
	unlink_one(at);
	return NULL;
}

void kept_sweep(struct kept_secrets *k, uint64_t now_ms, uint64_t wall_ms)
{
	for (struct kept_secret **at = &k->first; *at;) {
		if (is_over(*at, now_ms, wall_ms))
			unlink_one(at);
		else
			at = &(*at)->next;
	}
}

uint64_t kept_next_end(const struct kept_secrets *k)
{
	uint64_t next = 0;

	for (const struct kept_secret *s = k->first; s; s = s->next)
		if (!next || s->until_ms < next)
			next = s->until_ms;
	return next;
}

void kept_done(struct kept_secrets *k)
{
	while (k->first)
		unlink_one(&k->first);
}
