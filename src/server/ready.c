/*
 * What is said on stdout when the server serves: its addresses, how each client is pointed at them,
 * and, where it listens on TCP and no key was ever made, a first key.
 *
 * That token is for whoever started the server, and for no log: where stdout is systemd's journal
 * no key is made. One that could not be shown is removed again.
 */
#include "base/str.h"
#include "server/server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_KEY "first-start"

/* systemd says which file the journal reads. */
static bool is_journal(int fd)
{
	const char *journal = getenv("JOURNAL_STREAM");
	char mine[64];
	struct stat st;

	if (!journal || fstat(fd, &st) < 0)
		return false;
	snprintf(mine, sizeof(mine), "%llu:%llu", (unsigned long long)st.st_dev,
		 (unsigned long long)st.st_ino);
	return strcmp(mine, journal) == 0;
}

static bool first_url(const struct server *s, bool is_unix, char ret[SERVER_URL_MAX])
{
	for (size_t i = 0; server_listener_url(s, i, ret); i++)
		if (str_starts(ret, "unix:") == is_unix)
			return true;
	return false;
}

/* Of this user, in a file: a name of systemd's has none. */
static bool socket_url(const struct server *s, char ret[SERVER_URL_MAX])
{
	return first_url(s, true, ret) && strchr(ret, '/');
}

/* 1: there is a first key now. */
static int make_first_key(struct server *s, struct cove_key_made *made, struct err *e)
{
	const struct cove_key_options o = {.size = sizeof(o), .name = FIRST_KEY};
	struct cove_key_info *keys = NULL;
	struct cove_error err;
	int r = cove_keys(s->api->cove, &keys, &err);

	free(keys);
	if (r == 0)
		r = cove_key_create(s->api->cove, &o, made, &err);
	else if (r > 0)
		return 0;
	if (r < 0)
		return err_set(e, ERR_INTERNAL, -r, "make the first key: %s", err.message);
	return 1;
}

/* What a client on this machine calls it: an address that is none ("0.0.0.0") names no machine, and
 * a request for it is refused. *ret_named: it is another one than where the server listens. */
static bool client_url(const struct server *s, char *ret, size_t size, bool *ret_named)
{
	const struct config_list *names = &s->config->host_names;
	char url[SERVER_URL_MAX];
	bool is_v6;

	if (!first_url(s, false, url))
		return false;
	is_v6 = strstr(url, "://[::]:");
	*ret_named = is_v6 || strstr(url, "://0.0.0.0:");
	if (*ret_named)
		snprintf(ret, size, "%.*s%.255s%s", (int)(strstr(url, "://") - url + 3), url,
			 names->count > 0 ? names->items[0]
			 : is_v6	  ? "[::1]"
					  : "127.0.0.1",
			 strrchr(url, ':'));
	else
		snprintf(ret, size, "%s", url);
	return true;
}

static void say_clients(const struct server *s, const char *token)
{
	char url[300], path[SERVER_URL_MAX];
	bool is_named, has_socket = socket_url(s, path);

	if (client_url(s, url, sizeof(url), &is_named)) {
		printf("\nclients find it so%s:\n"
		       "  export COVE_HOST=%s COVE_API_KEY=%s\n"
		       "  cove ls\n"
		       "  python3 -c 'import cove; "
		       "print(cove.Sandbox().run(\"hostname\").stdout)'\n"
		       "  curl -H \"Authorization: Bearer $COVE_API_KEY\" $COVE_HOST/v1/boxes\n",
		       token ? " (its first key is shown this once; `cove key create` makes more)"
			     : " (TOKEN is what `cove key create NAME` prints)",
		       url, token ? token : "TOKEN");
		if (is_named && s->config->host_names.count == 0)
			printf("and on other machines with an address of this one in place of "
			       "that, "
			       "or a name that --host-name gives\n");
		if (has_socket)
			printf("and this user without a key:\n"
			       "  curl --unix-socket %s http://localhost/v1/boxes\n",
			       path + strlen("unix:"));
		return;
	}
	if (has_socket)
		printf("\nclients of this user find it so, without a key:\n"
		       "  export COVE_HOST=%s\n"
		       "  cove ls\n"
		       "  python3 -c 'import cove; "
		       "print(cove.Sandbox().run(\"hostname\").stdout)'\n"
		       "  curl --unix-socket %s http://localhost/v1/boxes\n",
		       path, path + strlen("unix:"));
}

int server_say_ready(struct server *s, struct err *e)
{
	struct cove_key_made made = {.size = sizeof(made)};
	char url[SERVER_URL_MAX];
	int r = 0;

	if (!s->config->private && first_url(s, false, url) && !is_journal(STDOUT_FILENO))
		r = make_first_key(s, &made, e);
	if (r < 0)
		return r;
	for (size_t i = 0; server_listener_url(s, i, url); i++)
		printf("listening on %s\n", url);
	if (!s->config->private)
		say_clients(s, r > 0 ? made.token : NULL);
	if ((fflush(stdout) != 0 || ferror(stdout)) && r > 0)
		(void)cove_key_remove(s->api->cove, made.id, NULL);
	explicit_bzero(&made, sizeof(made));
	return 0;
}
