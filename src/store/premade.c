/* Boxes that are made ahead of time; see premade.h. */
#include "store/premade.h"

#include "base/fd.h"
#include "base/pass.h"
#include "base/str.h"
#include "store/net.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define NEW_DIR ".new-"

void premade_name(const char *dir, char ret[PREMADE_NAME_SIZE])
{
	ret[0] = 0;
	if (str_starts(dir, NEW_DIR))
		snprintf(ret, PREMADE_NAME_SIZE, "~%.16s", dir + strlen(NEW_DIR));
}

bool premade_is_name(const char *name)
{
	return name[0] == '~';
}

bool premade_is_there(const struct state *st, const char *name)
{
	char dir[BOX_NAME_MAX + 8];

	snprintf(dir, sizeof(dir), NEW_DIR "%.*s", BOX_NAME_MAX, name + 1);
	return faccessat(st->boxes_fd, dir, F_OK, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

static bool same(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

/* What is shown from elsewhere, or is in the box from its first moment. */
static bool is_plain(const struct spec *s)
{
	return !s->workspace && !s->workspace_dir && !s->mount_count && !s->from && !s->renew &&
	       !s->workspace_copy && !s->one_shot && !s->strict && !s->ptrace && !s->ctl &&
	       !s->storage && !net_is_closed(s->net) && !s->limits[LIMIT_IO] &&
	       s->limits[LIMIT_MEM] && s->limits[LIMIT_CPUS] && s->limits[LIMIT_PIDS];
}

bool premade_fits(const struct spec *made, const struct spec *asked)
{
	const unsigned disk = 1u << LIMIT_DISK;

	if (!is_plain(asked) || !is_plain(made) || !same(made->owner, asked->owner) ||
	    !same(made->image, asked->image) || !same(made->wall, asked->wall) ||
	    made->limits[LIMIT_DISK] != asked->limits[LIMIT_DISK] ||
	    (made->limits_asked & disk) != (asked->limits_asked & disk) ||
	    made->layer_count != asked->layer_count)
		return false;
	for (size_t i = 0; i < made->layer_count; i++)
		if (strcmp(made->layers[i], asked->layers[i]) != 0)
			return false;
	return true;
}

int premade_await(int sock, int pidfd, int *ret_config_fd)
{
	struct pollfd p[] = {{.fd = sock, .events = POLLIN}, {.fd = pidfd, .events = POLLIN}};
	int r;

	while (poll(p, 2, -1) < 0)
		if (errno != EINTR)
			return -errno;
	if (!p[0].revents)
		return -ECHILD;
	r = pass_receive(sock, ret_config_fd, 1);
	return r == -EPIPE ? -ECANCELED : r;
}
