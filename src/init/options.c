/* The arguments of cove-init; see init.h for what they mean. */
#include "init/options.h"

#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct option {
	const char *name;
	bool has_value;
	int (*apply)(struct init *in, const char *value);
};

static int opt_user(struct init *in, const char *value)
{
	in->user = value;
	return 0;
}

static int opt_cwd(struct init *in, const char *value)
{
	in->cwd = value;
	return value[0] == '/' ? 0 : -EINVAL;
}

static int opt_shell_dir(struct init *in, const char *value)
{
	in->shell_dir = value;
	return value[0] == '/' ? 0 : -EINVAL;
}

/* The next descriptor is that directory or socket. */
static int take_inherited(struct init *in, int *fd)
{
	if (*fd >= 0)
		return -EEXIST;
	*fd = INIT_FD_FIRST + (int)in->inherited++;
	return 0;
}

static int opt_cgroup(struct init *in, const char *value)
{
	return take_inherited(in, &in->groups.fd[TREE_V2]);
}

static int opt_memory_v1(struct init *in, const char *value)
{
	return take_inherited(in, &in->groups.fd[TREE_MEMORY]);
}

static int opt_io_v1(struct init *in, const char *value)
{
	return take_inherited(in, &in->groups.fd[TREE_IO]);
}

static int opt_pids_events(struct init *in, const char *value)
{
	return take_inherited(in, &in->groups.pids_events_fd);
}

/* Where the socket of an option goes; of two redirects the second is that of IPv6. */
static int *net_socket(struct net_fds *n, const char *option)
{
	const struct {
		const char *option;
		int *fd;
	} sockets[] = {
		{"--net-proxy", &n->proxy},
		{"--net-dns", &n->dns},
		{"--net-dns-tcp", &n->dns_tcp},
		{"--net-diag", &n->diag},
		{"--net-redirect", n->redirect4 < 0 ? &n->redirect4 : &n->redirect6},
	};

	for (size_t i = 0; i < sizeof(sockets) / sizeof(sockets[0]); i++)
		if (strcmp(sockets[i].option, option) == 0)
			return sockets[i].fd;
	return NULL;
}

int init_options_give_socket(struct init *in, const char *option, int fd)
{
	int *to = net_socket(&in->net_fds, option);

	if (!to || *to >= 0)
		return -EINVAL;
	*to = fd;
	return 0;
}

static int opt_single(struct init *in, const char *value)
{
	in->single = true;
	return 0;
}

static int opt_strict(struct init *in, const char *value)
{
	in->strict = true;
	return 0;
}

static int opt_guest(struct init *in, const char *value)
{
	in->guest.name = value;
	return value[0] ? 0 : -EINVAL;
}

static int opt_guest_mem(struct init *in, const char *value)
{
	return str_parse_u64(value, INT64_MAX, &in->guest.mem_bytes) ? 0 : -EINVAL;
}

static int opt_guest_files(struct init *in, const char *value)
{
	return str_parse_u64(value, INT32_MAX, &in->guest.files) ? 0 : -EINVAL;
}

static int opt_guest_net(struct init *in, const char *value)
{
	in->guest.net = true;
	return 0;
}

static int opt_guest_trust(struct init *in, const char *value)
{
	in->guest.trust_pem = value;
	return 0;
}

static int opt_disk_limit(struct init *in, const char *value)
{
	return str_parse_u64(value, INT64_MAX, &in->disk_limit) ? 0 : -EINVAL;
}

/* As it is before anything of the box runs: what is at that name later is untrusted. */
static int opt_disk(struct init *in, const char *value)
{
	struct stat st;

	if (in->disk_count == INIT_DISKS_MAX || stat(value, &st) < 0)
		return -EINVAL;
	in->disks[in->disk_count++] = st.st_dev;
	return 0;
}

static int opt_pids_limit(struct init *in, const char *value)
{
	return str_parse_u64(value, INT32_MAX, &in->pids_limit) ? 0 : -EINVAL;
}

/* The list was made as long as argv. */
static int opt_env(struct init *in, const char *value)
{
	const char **at = (const char **)(uintptr_t)in->env;

	if (value[0] == '=' || !strchr(value, '='))
		return -EINVAL;
	while (*at)
		at++;
	at[0] = value;
	at[1] = NULL;
	return 0;
}

static const struct option options[] = {
	{"--user", true, opt_user},
	{"--cwd", true, opt_cwd},
	{"--env", true, opt_env},
	{"--shell-dir", true, opt_shell_dir},
	{"--cgroup", false, opt_cgroup},
	{"--memory-v1", false, opt_memory_v1},
	{"--io-v1", false, opt_io_v1},
	{"--pids-events", false, opt_pids_events},
	{"--single", false, opt_single},
	{"--strict", false, opt_strict},
	{"--guest", true, opt_guest},
	{"--guest-mem", true, opt_guest_mem},
	{"--guest-files", true, opt_guest_files},
	{"--guest-net", false, opt_guest_net},
	{"--guest-trust", true, opt_guest_trust},
	{"--disk-limit", true, opt_disk_limit},
	{"--disk", true, opt_disk},
	{"--pids-limit", true, opt_pids_limit},
};

static const struct option *find_option(const char *name)
{
	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++)
		if (strcmp(options[i].name, name) == 0)
			return &options[i];
	return NULL;
}

int init_options_parse(struct init *in, int argc, char **argv)
{
	in->env = calloc((size_t)argc + 1, sizeof(*in->env));
	if (!in->env) {
		dprintf(2, "cove-init: no memory for its arguments\n");
		return -ENOMEM;
	}
	(void)opt_disk(in, "/");
	for (int i = 1; i < argc; i++) {
		const struct option *o = find_option(argv[i]);
		int *socket = net_socket(&in->net_fds, argv[i]);
		const char *value = o && o->has_value ? argv[++i] : "";

		if (socket && take_inherited(in, socket) == 0)
			continue;

		if (!o || !value || o->apply(in, value) < 0) {
			dprintf(2, "cove-init: cannot use the argument '%s'\n",
				o && o->has_value ? argv[i - 1] : argv[i]);
			return -EINVAL;
		}
	}
	return 0;
}
