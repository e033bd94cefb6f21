/*
 * What is kept of a box's network, and of the machine's: small files, one writer each.
 *
 *	boxes/<name>/policy   the policy's text, where it is not built in          libcove
 *	boxes/<name>/policy.name  "SHA256 NAME": what the text with that hash is   libcove
 *	                      called: a preset, or a file as it was typed
 *	boxes/<name>/grants   grants: lines "allow|deny UNTIL_MS HOST[:PORT]",
 *	                      0 for ever                                           libcove
 *	boxes/<name>/used     what it has used of its budgets; see door/used.h     the broker
 *	door/ca/<hex>.pem     authorities made ahead of time, each for one box:    cove-door
 *	                      certificate and key, 0600
 *	door/used/<name>.<hex>.pem  that of a box which runs. Not in the box's     its launcher
 *	                      directory: what a keeper can read, once it met its
 *	                      box, must not be another box's authority later
 *	door/default          the policy for boxes that name none: a preset's name, a list or "file"
 *	door/default.policy   its text, then
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/limits.h"
#include "store/state.h"

#include <stdbool.h>
#include <stdint.h>

#define NET_POLICY_FILE	     "policy"
#define NET_POLICY_NAME_FILE "policy.name"
#define NET_GRANTS_FILE	     "grants"
#define NET_USED_DIR	     "door/used"

enum { NET_CA_NAME_MAX = BOX_NAME_MAX + 48, NET_NAME_MAX = 120 };

/* Is it the name of a preset ("none" is "closed"), or a list that begins with one, with groups
 * after it: "balanced,huggingface"? Which groups there are the door knows. */
bool net_is_preset(const char *name);
/* Is it taken for the name of a file, rather than of a preset? */
bool net_names_file(const char *name);
/* A box without network: NULL, "closed" or "none". */
bool net_is_closed(const char *policy);

/* The default: "balanced" unless set. ret is a preset's name, a list, or "file". */
int net_default(struct state *st, char ret[NET_NAME_MAX], struct err *e);
int net_set_default(struct state *st, const char *preset, const char *text, size_t len,
		    struct err *e);
/* The text where it is "file"; owned. */
int net_default_text(struct state *st, char **ret, size_t *ret_len, struct err *e);
/* Cuts the comments out of a policy's text that is to be shown; never of one that is to hold. */
void net_drop_comments(char *text);

/* The directory of the premade ones, or -errno. */
int net_ca_dir(struct state *st, bool make, struct err *e);
/* Takes a premade authority for the box, by rename: never two boxes the same. -ENOENT when there is
 * none: make some (cove-door make-ca) and try again. The name is that of the file below
 * NET_USED_DIR; the certificate alone is owned. */
int net_ca_take(struct state *st, const char *box, char ret_name[NET_CA_NAME_MAX],
		char **ret_cert_pem, struct err *e);
/* It is that box's from now on, by whatever name it was taken: ret_name changes. Negative errno. */
int net_ca_pass(const char *home, const char *box, char ret_name[NET_CA_NAME_MAX]);
/* The box ended and its door was never started, so no one ever read the key: back to the premade
 * ones. */
void net_ca_return(const char *home, const char *name);
/* The box ended and its door was there: the key is never used again. */
void net_ca_drop(const char *home, const char *name);
/* Deletes those that no running box needs: their launcher did not live to do it. */
void net_ca_sweep(struct state *st, bool (*is_needed)(void *arg, const char *box), void *arg);
/* The files of one box as they are now, to be dropped once it has ended (state_names_free). By
 * then its name may be another box's, and that one's authority has another file. */
int net_ca_names(struct state *st, const char *box, char ***ret_names, size_t *ret_count);

/* The box's own policy, and what it is called. */
int net_policy_write(struct state *st, int box_fd, const char *name, const char *text, size_t len,
		     struct err *e);
/* What the policy of a box is called that was made with this preset, or "file". */
void net_policy_name(int box_fd, const char *made_with, char ret[NET_NAME_MAX]);

/* A grant for HOST[:PORT]. */
struct net_grant {
	bool allow;
	const char *pattern;
	uint64_t until_ms; /* 0: for ever */
};

/* One line of the file: "allow|deny UNTIL_MS HOST[:PORT]"; cut in place. -EBADMSG. */
int net_grant_parse(char *line, struct net_grant *ret);
/* Live grants of a box. Expired ones are dropped on the way, and those for the same pattern that do
 * not outlast the new one. One that does stays before it: it holds again afterwards. */
int net_grant_add(struct state *st, int box_fd, const struct net_grant *g, uint64_t now_ms,
		  struct err *e);
int net_grants_clear(int box_fd, struct err *e);
