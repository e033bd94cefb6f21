/* The arguments of cove-init; see init.h for what they mean. */
#include "init/options.h"

#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* What an option's value is, and so how it is put into struct init. */
enum init_option_kind { TEXT, NAME, PATH, NUMBER, FLAG, INHERITED, OTHER };

struct option {
	const char *name;
	enum init_option_kind kind;
	size_t at;					  /* of the field, but OTHER */
	uint64_t max;					  /* NUMBER */
	int (*apply)(struct init *in, const char *value); /* OTHER */
};

/* The next descriptor is that directory or socket. */
static int take_inherited(struct init *in, int *fd)
{
	if (*fd >= 0)
		return -EEXIST;
	*fd = INIT_FD_FIRST + (int)in->inherited++;
	return 0;
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

/* As it is before anything of the box runs: what is at that name later is untrusted. */
static int opt_disk(struct init *in, const char *value)
{
	struct stat st;

	if (in->disk_count == INIT_DISKS_MAX || stat(value, &st) < 0)
		return -EINVAL;
	in->disks[in->disk_count++] = st.st_dev;
	return 0;
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

#define FIELD(name) .at = offsetof(struct init, name)

static const struct option options[] = {
	{"--user", TEXT, FIELD(user)},
	{"--cwd", PATH, FIELD(cwd)},
	{"--make-cwd", FLAG, FIELD(make_cwd)},
	{"--env", OTHER, .apply = opt_env},
	{"--shell-dir", PATH, FIELD(shell_dir)},
	{"--cgroup", INHERITED, FIELD(groups.fd[TREE_V2])},
	{"--memory-v1", INHERITED, FIELD(groups.fd[TREE_MEMORY])},
	{"--io-v1", INHERITED, FIELD(groups.fd[TREE_IO])},
	{"--pids-events", INHERITED, FIELD(groups.pids_events_fd)},
	{"--single", FLAG, FIELD(single)},
	{"--strict", FLAG, FIELD(strict)},
	{"--once", FLAG, FIELD(groups.once)},
	{"--soon", FLAG, FIELD(soon)},
	{"--renew", FLAG, FIELD(renew)},
	{"--guest", NAME, FIELD(guest.name)},
	{"--guest-mem", NUMBER, FIELD(guest.mem_bytes), .max = INT64_MAX},
	{"--guest-files", NUMBER, FIELD(guest.files), .max = INT32_MAX},
	{"--guest-net", FLAG, FIELD(guest.net)},
	{"--guest-trust", TEXT, FIELD(guest.trust_pem)},
	{"--ctl", NAME, FIELD(ctl_name)},
	{"--net-listen", NAME, FIELD(net_listen)},
	{"--start-file", PATH, FIELD(start_file)},
	{"--engine", FLAG, FIELD(engine)},
	{"--engine-shared", FLAG, FIELD(engine_shared)},
	{"--engine-ptrace", FLAG, FIELD(engine_ptrace)},
	{"--disk-limit", NUMBER, FIELD(disk_limit), .max = INT64_MAX},
	{"--disk", OTHER, .apply = opt_disk},
	{"--disk-quota", FLAG, FIELD(disk_quota)},
	{"--memory-max", TEXT, FIELD(groups.memory_max)},
	{"--cpu-max", TEXT, FIELD(groups.cpu_max)},
	{"--pids-must", FLAG, FIELD(pids_must)},
	{"--pids-limit", NUMBER, FIELD(pids_limit), .max = INT32_MAX},
};

static const struct option *find_option(const char *name)
{
	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++)
		if (strcmp(options[i].name, name) == 0)
			return &options[i];
	return NULL;
}

static int apply(const struct option *o, struct init *in, const char *value)
{
	void *field = (char *)in + o->at;

	switch (o->kind) {
	case TEXT:
	case NAME:
	case PATH:
		*(const char **)field = value;
		return (o->kind == NAME && !value[0]) || (o->kind == PATH && value[0] != '/')
			       ? -EINVAL
			       : 0;
	case NUMBER:
		return str_parse_u64(value, o->max, field) ? 0 : -EINVAL;
	case FLAG:
		*(bool *)field = true;
		return 0;
	case INHERITED:
		return take_inherited(in, field);
	case OTHER:
		break;
	}
	return o->apply(in, value);
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
		bool has_value = o && o->kind != FLAG && o->kind != INHERITED;
		const char *value = has_value ? argv[++i] : "";

		if (socket && take_inherited(in, socket) == 0)
			continue;
		if (!o || !value || apply(o, in, value) < 0) {
			dprintf(2, "cove-init: cannot use the argument '%s'\n",
				has_value ? argv[i - 1] : argv[i]);
			return -EINVAL;
		}
	}
	return 0;
}
