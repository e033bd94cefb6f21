/*
 * Credentials that a box sends by itself. A rule that adds one means it to be the only one: with a
 * key of its own a box could use an allowed host as somebody else, and leave what it knows there.
 * What is known as a credential is one table (credential.c); a rule lists what may pass (`pass`).
 */
#pragma once

#include "door/policy.h"
#include "http/http.h"

/* A header or a query parameter that is removed. */
bool credential_is_known(const char *name);
/* Removes all of them but those that the rule (NULL: none) lets pass: fields, parameters of the
 * target, and keys in Sec-WebSocket-Protocol. Of trailers the fields. -ENOMEM and the like: it is
 * not to be sent. */
int credentials_remove(struct http_head *h, const struct rule *rule);
