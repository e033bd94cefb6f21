/*
 * Ports of boxes, for whoever speaks HTTP: what listens, links, and the proxy.
 *
 *	by path		/v1/boxes/{box}/ports/{port}/...
 *			a key, in a field: no browser can be made to send one
 *	by name		<port>-<box>.<domain>
 *			a key; a link (port_link.c), which becomes a cookie of that name; or the box
 *			says that the port is public
 *
 * A box of a key is called <port>-<id>--<box> there: one name is one box's, whoever asks, since a
 * browser keeps apart what has different names and nothing else.
 *
 *	proxy.c		the exchange itself
 *	port_host.c	names, and who may ask by them
 *	port_link.c	links: made, checked
 *	ports.c		routes
 */
#pragma once

#include "api/api.h"
#include "api/handlers.h"

enum {
	PORT_LINK_SIZE = 128,	    /* of a link's token, with its NUL */
	PORT_LINK_MS = 3600 * 1000, /* that a link is good for, unless it says how long */
	PORT_LINK_MS_MAX = 30 * 86400 * 1000u,
	PORT_NAME_SIZE = 256,
};
#define PORT_LINK_QUERY "cove_token"
/* The label of a box that says which of its ports are public: "8000,3000", or "all". */
#define PORT_PUBLIC_LABEL "cove.public"
/* The cookie that a link becomes: of the first name where a browser asks over TLS, so that no other
 * name of the domain can set it. */
#define PORT_COOKIE_TLS "__Host-cove-port"
#define PORT_COOKIE	"cove-port"

/* A request to a port. */
struct api_port_ask {
	char box[BOX_NAME_MAX + 1]; /* on this machine */
	unsigned number;
	bool by_name;
	bool is_visitor;    /* came by a link, or the port is public */
	const char *target; /* for the box: "/path?query" */
	const char *prefix; /* that was taken off; NULL by name */
	const char *link;   /* came with the query; NULL: none */
	uint64_t link_ms;   /* that it is still good for */
};

/* ---- port_host.c ---- */

/* "<port>-<box>.<domain>". False where the box's name is too long for that. */
bool api_port_name(const char *domain, const char *box, unsigned port, char ret[PORT_NAME_SIZE]);
/* The other way, of any text. */
bool api_port_name_parse(const char *domain, const char *host, char ret_box[BOX_NAME_MAX + 1],
			 unsigned *ret_port);
/* Is the request by name? */
bool api_port_is_named(const struct api_call *c);
/* Who asks, and may they? Sets route and port. */
int api_port_admit(struct api_call *c, struct err *e);
/* Do the fields of a request hold a key of ours in this value? */
bool api_port_is_key(const char *value);
bool api_port_is_tls(const struct api_call *c);

/* ---- port_link.c ---- */

/* A token that opens this port of this box, as it is now, until then. */
int api_port_link(struct api_call *c, const char *box, unsigned port, uint64_t expires_ms,
		  char ret[PORT_LINK_SIZE], struct err *e);
/* Is it good? Sets who; *ret_left_ms is what is left of its time. False for any other bytes. */
bool api_port_link_take(struct api_call *c, const struct api_port_ask *ask, const char *token,
			size_t len, uint64_t *ret_left_ms);

/* ---- proxy.c ---- */

/* Of a route with API_BODY_STREAM; c->port is set. */
int api_proxy(struct api_call *c, struct err *e);
