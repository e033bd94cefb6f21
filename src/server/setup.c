/*
 * What a configuration makes: the certificate's files are read, addresses are checked and opened,
 * and only then does all of it take the place of what was. A file that is wrong changes nothing.
 *
 * A connection goes on with the certificate that it began with, a call with the walls; so what was
 * before is kept until there is neither: that is looked at when a configuration comes and whenever
 * the last connection goes.
 */
#include "net/tls.h"
#include "server/server.h"

#include <errno.h>
#include <stdlib.h>

static void setup_free(struct server_setup *u)
{
	while (u) {
		struct server_setup *before = u->before;

		tls_free(u->tls);
		server_config_done(&u->config);
		free(u);
		u = before;
	}
}

void server_setup_free(struct server *s)
{
	setup_free(s->setup);
	s->setup = NULL;
	s->config = NULL;
	s->tls = NULL;
}

void server_setup_ports(struct server *s)
{
	struct api_options *o = &s->api->options;

	if (!o->domain || o->domain_scheme)
		return;
	if (o->domain_port == 0)
		o->domain_port = server_listener_port(s);
	o->domain_scheme = s->tls ? "https" : "http";
}

void server_setup_drop_old(struct server *s)
{
	if (s->conn_count > 0 || s->api->calls)
		return;
	setup_free(s->setup->before);
	s->setup->before = NULL;
}

static void put_in_place(struct server *s, struct server_setup *u)
{
	struct api_options options = {0};

	server_config_options(&u->config, &options);
	api_set(s->api, &options);
	u->before = s->setup;
	s->setup = u;
	s->config = &u->config;
	s->tls = u->tls;
	server_setup_ports(s);
	server_setup_drop_old(s);
}

int server_setup_load(struct server *s, struct err *e)
{
	struct server_setup *u = calloc(1, sizeof(*u));
	int r = u ? server_config_read(&u->config, s->argv, e)
		  : err_errno(e, ENOMEM, "read the configuration");

	if (r == 0)
		r = server_config_may_follow(s->config, &u->config, e);
	if (r == 0) {
		struct api_options options = {0};

		server_config_options(&u->config, &options);
		r = api_options_check(&options, e);
	}
	if (r == 0 && u->config.tls_cert)
		r = tls_new_server(&u->tls, u->config.tls_cert, u->config.tls_key, e);
	if (r == 0)
		r = server_listen_change(s, &u->config, false, e);
	if (r < 0)
		setup_free(u);
	else
		put_in_place(s, u);
	return r;
}
