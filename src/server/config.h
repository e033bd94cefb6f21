/*
 * How a server is configured: flags, and a file with the same names, one "NAME: VALUE" to a
 * line, which flags overrule. "#" begins a comment. An unknown name is an error with its line.
 * "--config -FILE" is one that may be missing.
 */
#pragma once

#include "api/api.h"
#include "base/err.h"
#include "http/http.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CONFIG_LIST_MAX = 16 };

struct config_list {
	char *items[CONFIG_LIST_MAX]; /* owned */
	size_t count;
};

struct server_config {
	struct config_list listen;	   /* "ADDRESS:PORT"; none: only the Unix socket */
	char *socket;			   /* path of it; NULL: the usual place; "none" */
	char *home;			   /* state directory; NULL: the usual place */
	char *tls_cert, *tls_key;	   /* PEM files */
	bool plain_http;		   /* beyond loopback without TLS */
	bool shared_kernel;		   /* beyond loopback with the native wall */
	char *min_wall;			   /* boxes have this wall or another that is as strong */
	struct config_list host_names;	   /* that clients may call it by */
	struct config_list metrics_labels; /* of boxes, that /metrics shows apart */
	struct config_list origins;	   /* pages that may ask: "https://example.org" */
	char *domain; /* ports of boxes are <port>-<box>.<domain>; "NAME", "https://NAME[:PORT]" */
	char domain_name[256], domain_scheme[8]; /* its parts; "": it has no scheme */
	unsigned domain_port;
	/* Ends when stdin does; others may serve the same state directory. socket is given. */
	bool private;
	uint64_t threads, connections;
	char *otlp, *otlp_headers; /* where traces go, with what; NULL: $OTEL_... or nowhere */
	uint64_t webhook_retry_ms, webhook_failures; /* the first wait; then it is disabled */
	struct core_share memory_share, disk_share;  /* of the host, for all boxes together */
	uint64_t memory_reserve, disk_reserve;
	uint64_t admission_wait_ms;
	bool show_help;
};

void server_config_done(struct server_config *c);
/* argv without the program's name. */
int server_config_read(struct server_config *ret, char *const *argv, struct err *e);
/* May `next` take the place of `now` without a new start? ERR_CONFLICT names what does not. */
int server_config_may_follow(const struct server_config *now, const struct server_config *next,
			     struct err *e);
/* What the API has of it; both borrow from c. */
void server_config_options(const struct server_config *c, struct api_options *o);
/* The help of all flags. */
void server_config_help(void);

bool server_config_has_host(const struct server_config *c, const char *host);
/* Is it the server's own page, or one that is listed? */
bool server_config_has_origin(const struct server_config *c, const char *origin,
			      const struct http_target *target, bool is_tls);
