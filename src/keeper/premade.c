/*
 * A box that is made ahead of time, and becomes somebody's; see store/premade.h.
 *
 * It waits in the middle of a start (start.c): its groups, its volume, its namespaces and mounts
 * are there, and its new process waits before anything of the image has run. This keeper has not
 * confined itself yet, and has met only the one who made it. What comes then is a whole
 * configuration, as for any box; what was made cannot differ from it (premade_fits), the rest is
 * done from it by the very code that starts any box.
 */
#include "store/premade.h"
#include "base/fd.h"
#include "keeper/life.h"
#include "store/net.h"
#include "store/record.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

static bool same_lowers(const struct keeper_config *a, const struct keeper_config *b)
{
	if (a->lower_count != b->lower_count || a->image_is_host != b->image_is_host)
		return false;
	for (size_t i = 0; i < a->lower_count; i++)
		if (strcmp(a->lowers[i], b->lowers[i]) != 0)
			return false;
	return true;
}

/* The maker looked already; this is against its mistakes. */
static bool fits(const struct keeper_config *made, const struct keeper_config *asked)
{
	return !asked->premade && !asked->visit && !asked->secret_count &&
	       strcmp(made->home, asked->home) == 0 && strcmp(made->run, asked->run) == 0 &&
	       same_lowers(made, asked) && premade_fits(&made->spec, &asked->spec);
}

/* The old one stays for as long as the wall borrows from it. */
static void take_config(struct keeper_life *l, const struct keeper_config *next, uint64_t disk)
{
	l->made_as = l->config;
	l->config = *next;
	l->config.spec.limits[LIMIT_DISK] = disk;
	l->k.name = l->config.spec.name;
	l->k.timeout_ms = l->config.spec.timeout_ms;
}

static int ask(struct keeper_life *l, struct keeper_config *ret, struct err *e)
{
	const char ready = PREMADE_READY;
	autoclose int fd = -1;
	int r = send(l->client_fd, &ready, 1, MSG_NOSIGNAL) == 1 ? 0 : -errno;

	if (r == 0)
		r = premade_await(l->client_fd, l->box.pidfd, &fd);
	return r < 0 ? err_errno(e, -r, "wait until the box is somebody's")
		     : keeper_config_read(ret, fd, e);
}

int keeper_premade_await(struct keeper_life *l, struct err *e)
{
	/* As it was asked for, and as it was made. */
	uint64_t disk = l->config.spec.limits[LIMIT_DISK];
	struct keeper_config next;
	int r = ask(l, &next, e);

	if (r < 0)
		return r;
	l->config.spec.limits[LIMIT_DISK] = l->disk_asked;
	if (!fits(&l->config, &next)) {
		keeper_config_done(&next);
		return err_set(e, ERR_INTERNAL, EINVAL, "the box was made ahead for another");
	}
	take_config(l, &next, disk);
	ev_look(l->ev);
	r = record_lock(l->box_fd, &l->lock_fd, e);
	if (r == 0)
		r = keeper_limits_change(l, &l->made_as.spec, e);
	if (r < 0 || !l->network.cert)
		return r;
	r = net_ca_pass(l->st.home, l->config.spec.name, l->network.ca);
	return r < 0 ? err_errno(e, -r, "keep the box's authority") : 0;
}
