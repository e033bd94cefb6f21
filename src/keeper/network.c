/*
 * The network of a box that has one, as its keeper brings it up and down; see life.h.
 *
 *	before the wall starts   an authority for its door is taken from those made ahead. Where
 *	                         none is left cove-door makes some, which takes a while, once in a
 *	                         while
 *	beside the new process   the launcher is forked
 *	when the box ends        the door writes its last audit rows, then door and launcher go; the
 *	                         launcher, which never met the box, gives back
 *	                         an authority that no door ever had, and deletes any other
 */
#include "base/fd.h"
#include "guest/redirect.h"
#include "guest/trust.h"
#include "keeper/door.h"
#include "keeper/life.h"
#include "keeper/roots.h"
#include "store/net.h"
#include "store/premade.h"
#include "store/record.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAKE_MS = 60000, PREMAKE_TRIES = 8, TEXT_MAX = 16 };

#define STRING_(x) #x
#define STRING(x)  STRING_(x)
#define PROXY	   "http://127.0.0.1:" STRING(GUEST_PROXY_PORT)

const char *const keeper_network_env[NETWORK_ENV_COUNT + 1] = {
	"HTTP_PROXY=" PROXY,
	"HTTPS_PROXY=" PROXY,
	"ALL_PROXY=" PROXY,
	"NO_PROXY=localhost,127.0.0.1,::1",
	"http_proxy=" PROXY,
	"https_proxy=" PROXY,
	"all_proxy=" PROXY,
	"no_proxy=localhost,127.0.0.1,::1",
	"SSL_CERT_FILE=" GUEST_TRUST_FILE,	     /* OpenSSL, Python, Go */
	"CURL_CA_BUNDLE=" GUEST_TRUST_FILE,	     /* curl, and Python's requests */
	"REQUESTS_CA_BUNDLE=" GUEST_TRUST_FILE,	     /* Python's requests */
	"PIP_CERT=" GUEST_TRUST_FILE,		     /* pip */
	"GIT_SSL_CAINFO=" GUEST_TRUST_FILE,	     /* git */
	"AWS_CA_BUNDLE=" GUEST_TRUST_FILE,	     /* AWS's tools */
	"CARGO_HTTP_CAINFO=" GUEST_TRUST_FILE,	     /* cargo */
	"NODE_EXTRA_CA_CERTS=" GUEST_TRUST_OWN_FILE, /* Node, beside its own */
	"npm_config_cafile=" GUEST_TRUST_FILE,	     /* npm */
	"DENO_CERT=" GUEST_TRUST_OWN_FILE,	     /* Deno, beside its own */
	NULL,
};

static int no_door(const char *path, int code, struct err *e)
{
	return err_set(e, ERR_UNSUPPORTED, code,
		       "the program cove-door is missing at '%.120s': install Cove again, or start "
		       "the box without a network (--net closed)",
		       path ? path : "(no place is known)");
}

/* Fills the stock of premade authorities. */
static int premake(struct keeper_life *l, struct err *e)
{
	char dir[sizeof(l->st.home) + 16], count[TEXT_MAX];
	const char *path = l->config.door_path;
	const char *argv[] = {"cove-door", "make-ca", dir, count, NULL};
	const char *env[] = {"LANG=C", NULL};
	int status = 0;
	sigset_t none;
	pid_t pid;

	if (!path)
		return no_door(path, ENOENT, e);
	snprintf(dir, sizeof(dir), "%s/door/ca", l->st.home);
	snprintf(count, sizeof(count), "%u", DOOR_PREMADE);
	pid = fork();
	if (pid < 0)
		return err_errno(e, errno, "start '%.120s'", path);
	if (pid == 0) {
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		/* All descriptors but the first three close by themselves. */
		execve(path, (char *const *)(uintptr_t)argv, (char *const *)(uintptr_t)env);
		_exit(errno == ENOENT || errno == EACCES ? 127 : 126);
	}
	autoclose int pidfd = sys_pidfd_open(pid);
	struct pollfd p = {.fd = pidfd, .events = POLLIN};

	if (pidfd >= 0 && poll(&p, 1, MAKE_MS) == 0)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return no_door(path, ENOENT, e);
	if (status != 0)
		return err_set(e, ERR_INTERNAL, EIO,
			       "the box's certificate authority could not be made: see what "
			       "'%.120s make-ca %.80s 1' says",
			       path, dir);
	return 0;
}

static bool has_box(void *arg, const char *box)
{
	const struct state *st = arg;

	if (premade_is_name(box))
		return premade_is_there(st, box);
	return faccessat(st->boxes_fd, box, F_OK, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

/* The box trusts its authority, and what the host's administrator trusts. */
static int add_host_roots(struct keeper_network *n, struct err *e)
{
	struct buf roots;
	char *all = NULL;
	int r;

	buf_init(&roots, TRUST_EXTRA_MAX);
	r = keeper_roots_read(keeper_roots_places, &roots);
	if (r == 0 && buf_len(&roots) > 0)
		r = asprintf(&all, "%s\n%s", n->cert, buf_cstr(&roots)) < 0 ? -ENOMEM : 0;
	if (r == 0 && all) {
		free(n->cert);
		n->cert = all;
	}
	buf_done(&roots);
	return r < 0 ? err_errno(e, -r, "read what this host trusts") : 0;
}

/* Of an earlier life of this box, whose launcher did not live to do it: its name is this keeper's
 * now, so nobody needs them. What cannot be listed is for a sweep. */
static void drop_left(struct keeper_life *l, const char *box)
{
	char **names = NULL;
	size_t count = 0;

	if (net_ca_names(&l->st, box, &names, &count) < 0)
		return;
	for (size_t i = 0; i < count; i++)
		net_ca_drop(l->st.home, names[i]);
	state_names_free(names, count);
}

/* There is none: one keeper makes some for all that begin now. Others may take them meanwhile. */
static int take_new(struct keeper_life *l, const char *box, struct err *e)
{
	struct keeper_network *n = &l->network;
	autoclose int ca_fd = net_ca_dir(&l->st, true, e);
	int r;

	if (ca_fd < 0)
		return ca_fd;
	while (flock(ca_fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return err_errno(e, errno, "lock the certificate authorities");
	r = net_ca_take(&l->st, box, n->ca, &n->cert, e);
	if (r == -ENOENT)
		net_ca_sweep(&l->st, has_box, &l->st);
	for (int i = 0; r == -ENOENT && i < PREMAKE_TRIES; i++) {
		r = premake(l, e);
		if (r == 0)
			r = net_ca_take(&l->st, box, n->ca, &n->cert, e);
	}
	return r;
}

int keeper_network_prepare(struct keeper_life *l, struct err *e)
{
	struct keeper_network *n = &l->network;
	const char *box = l->config.spec.name;
	char premade_box[PREMADE_NAME_SIZE];
	int r;

	if (net_is_closed(l->config.spec.net))
		return 0;
	if (l->config.premade) {
		premade_name(l->config.premade, premade_box);
		box = premade_box;
	}
	/* One that is thrown away has but one life, and `cove rm` leaves none. */
	if (!l->config.spec.one_shot && !l->config.premade && record_ran_before(l->lock_fd))
		drop_left(l, box);
	r = net_ca_take(&l->st, box, n->ca, &n->cert, e);
	if (r == -ENOENT)
		r = take_new(l, box, e);
	return r < 0 ? r : add_host_roots(n, e);
}

int keeper_network_start(struct keeper_life *l, struct err *e)
{
	const struct spec *s = &l->config.spec;
	struct door_config config;
	struct keeper_door *door;

	if (!l->network.cert)
		return 0;
	if (!l->config.door_path)
		return no_door(NULL, ENOENT, e);
	config = (struct door_config){
		.home = l->st.home,
		.box = s->name,
		.created_ms = s->created_ms,
		.owner = s->owner,
		.policy = s->net,
		.ca = l->network.ca,
		.bytes_max = s->limits[LIMIT_NET_BYTES],
		.conns_max = s->limits[LIMIT_NET_CONNS],
	};
	return keeper_door_new(&door, &l->k,
			       &(struct launcher_config){l->config.door_path, &config,
							 l->cgroup_name, keeper_limits_grouped(l),
							 l->own_group},
			       e);
}

bool keeper_network_end(struct keeper_life *l, void (*on_over)(struct keeper *k))
{
	return !l->k.door || keeper_door_end(l->k.door, on_over);
}

void keeper_network_done(struct keeper_life *l)
{
	struct keeper_network *n = &l->network;

	if (l->k.door)
		keeper_door_free(l->k.door);
	else if (n->cert)
		/* It never came to a launcher, so it is not confined either. */
		net_ca_return(l->st.home, n->ca);
	free(take_ptr(n->cert));
}
