/* A native box that waits until it is taken; see park.h. */
#include "wall/native/park.h"

#include "base/buf.h"
#include "base/fd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* More than a specification's arguments can be. */
enum { PARK_BYTES_MAX = 2 * SPEC_BYTES_MAX + 65536 };

#define PARKED 'p'

struct said {
	uint32_t bytes; /* of the texts that follow, each with its NUL */
	uint32_t args;
	struct wall_limits limits;
};

/* ---- the keeper's side ---- */

int park_await(int go, bool has_net, uint8_t *ret_net_missing)
{
	uint8_t said[2] = {0};
	size_t count = has_net ? 2 : 1;
	ssize_t n = fd_read_full(go, said, count);

	if (n < 0)
		return (int)n;
	if ((size_t)n != count || said[count - 1] != PARKED)
		return -EPIPE;
	*ret_net_missing = has_net ? said[0] : 0;
	return 0;
}

static size_t args_bytes(const struct wall_config *c, uint32_t *ret_count)
{
	size_t n = strlen(c->name) + 1;

	*ret_count = 0;
	for (char *const *arg = c->init_argv; *arg; arg++, ++*ret_count)
		n += strlen(*arg) + 1;
	return n;
}

int park_send(int go, const struct wall_config *c)
{
	struct said said = {.limits = c->limits};
	struct buf b;
	int r;

	said.bytes = (uint32_t)args_bytes(c, &said.args);
	buf_init(&b, sizeof(said) + PARK_BYTES_MAX);
	r = buf_append(&b, &said, sizeof(said));
	if (r == 0)
		r = buf_append(&b, c->name, strlen(c->name) + 1);
	for (char *const *arg = c->init_argv; *arg && r == 0; arg++)
		r = buf_append(&b, *arg, strlen(*arg) + 1);
	if (r == 0)
		r = fd_write_full(go, buf_data(&b), buf_len(&b));
	buf_done(&b);
	return r;
}

/* ---- the child's ---- */

/* The texts stay for as long as this process is no init yet. */
static int take_texts(const struct said *said, char *text, struct wall_config *c)
{
	char **argv = calloc(said->args + 1, sizeof(*argv));
	char *at = text, *end = text + said->bytes;

	if (!argv)
		return -ENOMEM;
	c->name = at;
	for (uint32_t i = 0; i <= said->args; i++) {
		if (i > 0)
			argv[i - 1] = at;
		if (at < end)
			at += strlen(at) + 1;
	}
	c->init_argv = argv;
	return at == end ? 0 : -EBADMSG;
}

/* What was made of the placeholder's name and limits. */
static int change_made(struct enter *n, const struct wall_config *was)
{
	struct plan *p = n->plan;
	const struct wall_config *now = p->config;
	int r;

	guest_format_hosts(p->hosts, now->name);
	r = guest_change_file(&n->guest, "/etc/hosts", p->hosts);
	if (r == 0)
		r = guest_change_file(&n->guest, "/etc/hostname", now->name);
	if (r == 0 && now->limits.mem_bytes != was->limits.mem_bytes)
		r = guest_dev_resize(&n->guest, now->limits.mem_bytes);
	return r;
}

int park_wait(struct enter *n)
{
	const struct wall_config *was = n->plan->config;
	struct wall_config *now = malloc(sizeof(*now));
	struct said said;
	char *text;
	ssize_t got;
	int r;

	if (!now)
		return -ENOMEM;
	r = fd_write_full(n->go, &(char){PARKED}, 1);
	if (r < 0)
		return r;
	got = fd_read_full(n->go, &said, sizeof(said));
	if (got != sizeof(said) || said.bytes == 0 || said.bytes > PARK_BYTES_MAX ||
	    said.args > said.bytes)
		return got < 0 ? (int)got : -EPIPE;
	text = malloc(said.bytes + 1u);
	if (!text)
		return -ENOMEM;
	text[said.bytes] = 0;
	if (fd_read_full(n->go, text, said.bytes) != (ssize_t)said.bytes)
		return -EPIPE;
	*now = *was;
	now->limits = said.limits;
	r = take_texts(&said, text, now);
	if (r < 0)
		return r;
	n->plan->config = now;
	return change_made(n, was);
}
