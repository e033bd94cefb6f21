/* The tokens that a box has seen; see tokens.h. */
#include "keeper/tokens.h"

#include "base/limits.h"
#include "base/sha.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void tokens_done(struct token_set *t)
{
	free(t->keys);
	*t = (struct token_set){0};
}

/* The first place whose key is not less. */
static size_t place_of(const struct token_set *t, uint64_t key)
{
	size_t low = 0, high = t->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (t->keys[mid] < key)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

bool tokens_has(const struct token_set *t, uint64_t key)
{
	size_t at = place_of(t, key);

	return at < t->count && t->keys[at] == key;
}

int tokens_add(struct token_set *t, uint64_t key)
{
	size_t at = place_of(t, key);

	if (at < t->count && t->keys[at] == key)
		return 0;
	if (t->count >= KEEPER_TOKENS_MAX)
		return -ENOSPC;
	if (t->count == t->cap) {
		size_t cap = t->cap ? t->cap * 2 : 16;
		uint64_t *keys = realloc(t->keys, cap * sizeof(*keys));

		if (!keys)
			return -ENOMEM;
		t->keys = keys;
		t->cap = cap;
	}
	memmove(t->keys + at + 1, t->keys + at, (t->count - at) * sizeof(*t->keys));
	t->keys[at] = key;
	t->count++;
	return 0;
}

void tokens_remove(struct token_set *t, uint64_t key)
{
	size_t at = place_of(t, key);

	if (at == t->count || t->keys[at] != key)
		return;
	t->count--;
	memmove(t->keys + at, t->keys + at + 1, (t->count - at) * sizeof(*t->keys));
}

bool token_is_valid(const char *token)
{
	size_t n = strlen(token);

	for (size_t i = 0; i < n; i++)
		if (token[i] <= ' ' || token[i] > '~')
			return false;
	return n > 0 && n <= EXEC_TOKEN_MAX;
}

static uint64_t number_of(struct sha *s)
{
	uint8_t hash[32];
	uint64_t n;

	sha_end(s, hash);
	memcpy(&n, hash, sizeof(n));
	return n;
}

uint64_t token_key(const char *token)
{
	struct sha s;

	sha256_init(&s);
	sha_add(&s, token, strlen(token));
	return number_of(&s);
}

/* Each part with its length, so that no two commands look the same. */
static void add_part(struct sha *s, const void *p, size_t n)
{
	uint64_t len = p ? n + 1 : 0;

	sha_add(s, &len, sizeof(len));
	if (p)
		sha_add(s, p, n);
}

static void add_text(struct sha *s, const char *text)
{
	add_part(s, text, text ? strlen(text) : 0);
}

uint64_t token_arguments(const struct wire_exec *m)
{
	const uint64_t numbers[] = {m->timeout_ms, m->pty, m->has_stdin};
	struct sha s;

	sha256_init(&s);
	add_part(&s, m->argv.data, m->argv.bytes);
	add_text(&s, m->line);
	add_text(&s, m->shell);
	add_part(&s, m->env.data, m->env.bytes);
	add_text(&s, m->cwd);
	add_text(&s, m->user);
	add_part(&s, numbers, sizeof(numbers));
	if (m->login) /* added later: without it the number is what it was */
		add_text(&s, "login");
	if (m->merge)
		add_text(&s, "merge");
	return number_of(&s);
}
