/*
 * Credentials in a request, and out of an answer. Rendering asks the broker for each secret that a
 * rule names, at use: a rotated one is used by the next request. What was rendered lives until the
 * answer has passed, to be taken out of it in every form that redact.h knows.
 */
#pragma once

#include "door/broker.h"
#include "door/policy.h"
#include "http/http.h"

struct injection;

/* on_done comes once, never from within: r 0, or -errno with a sentence that names the rule and the
 * secret (never its value). */
int injection_start(struct injection **ret, struct broker *k, const struct rule *rule,
		    void (*on_done)(void *arg, int r, struct err *e), void *arg);
void injection_free(struct injection *i); /* wipes; cancels what is under way */

/* Fields of the same names are removed first, whatever their case; query parameters of the same
 * names are removed from the target. Where a secret is used the answer must be whole and in plain
 * text, to be searched: Accept-Encoding becomes identity, a WebSocket's extensions go (they
 * compress), and so does Range, unless the rule has `ranges` (a credential could be fetched in two
 * halves; a server may ignore it anyway). */
int injection_apply(const struct injection *i, struct http_head *request, struct err *e);
/* Removes the fields that it injects. */
void injection_strip(const struct injection *i, struct http_head *h);
/* It is what this rule, perhaps of a newer policy, injects. */
bool injection_is_of(const struct injection *i, const struct rule *rule);
/* A secret is in the request, so the answer is searched for it. A client certificate alone is not:
 * its key never leaves the door. */
bool injection_is_searched(const struct injection *i);
/* Names of the secrets used, "A,B", for the audit log. */
const char *injection_names(const struct injection *i);
/* The client certificate and key of the rule, or NULL. */
const struct tls_identity *injection_identity(const struct injection *i);

/* Overwrites every occurrence with '*' of the same length, so lengths stay. */
void injection_redact_head(const struct injection *i, struct http_head *response);
void injection_redact_whole(const struct injection *i, uint8_t *p, size_t n);
/* The same for a body, part after part: returns how many bytes may go now; what is behind them,
 * with more set, is to stand before the next part. How much that is depends on lengths and on the
 * text alone, never on what was found: a box that has guesses echoed would otherwise see how far
 * each of them is right. A whole line does not wait, where no secret has more than one and the line
 * does not end like one of wrapped base64 or hex. */
size_t injection_redact(struct injection *i, uint8_t *p, size_t n, bool more);
