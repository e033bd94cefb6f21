/*
 * What is kept of a box's network, and of the machine's: small files, one writer each.
 *
 *	boxes/<name>/policy   the policy's text, where it is not a preset          libcove
 *	boxes/<name>/grants   live allow and deny: lines "allow|deny UNTIL_MS HOST[:PORT]",
 *	                      0 for ever                                           libcove
 *	boxes/<name>/ca.pem   certificate and key of its authority, 0600           its keeper
 *	door/ca/<hex>.pem     authorities made ahead of time, each for one box     cove-door
 *	door/default          the policy for boxes that name none: a preset's name, or "file"
 *	door/default.policy   its text, then
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "store/state.h"

#include <stdbool.h>
#include <stdint.h>

#define NET_POLICY_FILE "policy"
#define NET_GRANTS_FILE "grants"
#define NET_CA_FILE	"ca.pem"

/* Is it one of the presets' names? "none" is "closed". */
bool net_is_preset(const char *name);
/* A box without network: NULL, "closed" or "none". */
bool net_is_closed(const char *policy);

/* The default: "balanced" unless set. ret is a preset's name, or "file". */
int net_default(struct state *st, char ret[32], struct err *e);
int net_set_default(struct state *st, const char *preset, const char *text, size_t len,
		    struct err *e);
/* The text where it is "file"; owned. */
int net_default_text(struct state *st, char **ret, size_t *ret_len, struct err *e);

/* The directory of the spares, or -errno. */
int net_ca_dir(struct state *st, bool make, struct err *e);
/* Takes a spare authority for the box, by rename: never two boxes the same. -ENOENT when there is
 * none: make some (cove-door make-ca) and try again. ret is the certificate alone, owned. */
int net_ca_take(struct state *st, int box_fd, char **ret_cert_pem, struct err *e);
/* The box ended and its door was never started, so the key was never used: back to the spares. */
void net_ca_return(int ca_dir_fd, int box_fd);
/* The box ended and its door was there: nobody gets this key again. */
void net_ca_drop(int box_fd);

/* Live grants of a box. Expired ones are dropped on the way, and one for the same pattern is
 * replaced. */
int net_grant_add(int box_fd, bool allow, const char *pattern, uint64_t until_ms, uint64_t now_ms,
		  struct err *e);
int net_grants_clear(int box_fd, struct err *e);
