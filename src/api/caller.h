/*
 * Who asks: the operator, who is the user that the server runs as, on its Unix socket; or a key.
 *
 * All that a key makes has the key's id before its name, on this machine; from what a key reads
 * that is taken off again. So two keys never meet, and neither sees what is the operator's.
 */
#pragma once

#include "api/account.h"
#include "base/err.h"
#include "store/key.h"

#include <stdbool.h>
#include <sys/types.h>

struct api_call;

/* The connection that it came by. */
struct api_client_info {
	bool is_local;
	uid_t peer_uid;
	const char *address; /* for logs, and for ports of boxes; "unix" where there is none */
	bool is_tls;
	unsigned connections_max; /* that clients may have, over TCP; 0: not bounded */
};

struct api_caller {
	bool is_operator;
	struct key *key; /* owned; NULL: the operator, or none */
	char by[80];	 /* for the audit log and for logs */
};

/* ERR_DENIED with EKEYREJECTED (401) where there is none. */
int api_caller_find(struct api_call *c, const struct api_client_info *client, struct err *e);
/* The same, whose key has this token; sets who. */
int api_caller_take(struct api_call *c, const char *token, struct err *e);
/* Is it the operator on the Unix socket? Then sets who. */
bool api_caller_is_local(struct api_call *c, const struct api_client_info *client);
/* What to say where a key is needed and none is there. */
int api_caller_none(struct err *e);
void api_caller_done(struct api_caller *w);
/* Did the call come with a key that is one, or from the operator? */
bool api_call_is_known(const struct api_call *c);
/* ERR_DENIED names the scope that is missing. */
int api_caller_may(const struct api_caller *w, unsigned scope, struct err *e);

/* The key's id; NULL: the operator. */
const char *api_owner(const struct api_call *c);
/* A name as the caller gives it -> the one on this machine, in the call's memory. NULL stays. */
int api_name(struct api_call *c, enum key_kind kind, const char *name, const char **ret,
	     struct err *e);
/* Is it the caller's to see? *ret_shown (may be NULL) is then the name as the caller knows it. */
bool api_name_shown(const struct api_call *c, enum key_kind kind, const char *name,
		    const char **ret_shown);
/* Takes the caller's id off all names in a text; its length then. */
size_t api_hide_id(const char *id, char *text, size_t len); /* "": the operator, nothing */
size_t api_hide(const struct api_call *c, char *text, size_t len);
struct buf;
void api_caller_hide(const struct api_call *c, struct buf *b);
