/*
 * Why something was denied, and what the box's owner can do about it: the one table of both. The
 * door gives every denial its reason, which goes into the audit row (`why`, by its word), into the
 * answer to the box and, by the keeper, into the result of the command that was denied.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum denial {
	DENIAL_UNMATCHED,  /* no rule is for this host and port */
	DENIAL_REQUEST,	   /* rules are for this host, and none for this method and path */
	DENIAL_RULE,	   /* a rule that denies */
	DENIAL_PRIVATE,	   /* an address that needs `private: true` */
	DENIAL_METADATA,   /* a cloud's metadata service: it gives out the host's credentials */
	DENIAL_BUDGET,	   /* rate or bytes of a rule */
	DENIAL_LIMIT,	   /* connections or bytes of the whole box */
	DENIAL_PERSON,	   /* somebody was asked, and said no or nothing */
	DENIAL_CREDENTIAL, /* what the rule injects cannot be had, or not be sent safely */
	DENIAL_FORM,	   /* what the box sent is not what it says, or cannot be judged */
	DENIAL_POLICY,	   /* the policy cannot be read */
	DENIAL_COUNT
};

/* What was denied; what is not known is NULL or 0. */
struct denied {
	enum denial why;
	const char *box, *host;
	uint64_t port;
	const char *method, *rule;
};

enum { DENIAL_REMEDY_MAX = 208 };

/* Its word in the audit log. */
const char *denial_word(enum denial why);
bool denial_parse(const char *word, enum denial *ret);
/* A few words: "no rule allows it". */
const char *denial_reason(enum denial why);
/* HOST[:PORT] as `cove allow` takes it: without a port it means 443 and 80. False if there is no
 * room for all of it. */
bool denial_pattern(const struct denied *d, char *dst, size_t size);
/* What would let it pass, whole or not at all: a name that is cut off is another name. "" where
 * nothing should. */
void denial_remedy(const struct denied *d, char *dst, size_t size);
