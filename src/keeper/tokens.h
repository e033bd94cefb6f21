/*
 * The tokens that a box has seen, as 64-bit keys: a set that only grows while the box lives, except
 * for the token of a command that did not start. Bounded by KEEPER_TOKENS_MAX; a full set refuses
 * new ones, so that no token is ever forgotten and its command run twice.
 */
#pragma once

#include "wire/msg_exec.h"

#include <stddef.h>

struct token_set {
	uint64_t *keys; /* owned, sorted */
	size_t count, cap;
};

void tokens_done(struct token_set *t);
/* 0, or -ENOMEM, or -ENOSPC when it is full. Adding one that is there changes nothing. */
int tokens_add(struct token_set *t, uint64_t key);
void tokens_remove(struct token_set *t, uint64_t key);
bool tokens_has(const struct token_set *t, uint64_t key);

/* 1 to EXEC_TOKEN_MAX printable bytes without a space. */
bool token_is_valid(const char *token);
uint64_t token_key(const char *token);
/* What a command is, as a number: all that EXEC says but its token and what shapes the answer. */
uint64_t token_arguments(const struct wire_exec *m);
