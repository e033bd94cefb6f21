/*
 * The insides of a box, made by init itself; see setup.h.
 *
 * The scratch is mounted at /dev, where the box's own /dev comes to lie on top of it in the end.
 * Device nodes are made where this process may make some that work; otherwise those that the wall
 * left at /dev are used, if they are the devices they should be.
 */
#include "guest/setup.h"

#include "base/fd.h"
#include "guest/guest.h"
#include "guest/hold.h"
#include "guest/mount.h"
#include "guest/open.h"
#include "guest/target.h"
#include "guest/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

struct setup {
	const struct guest_setup *config;
	struct guest guest;
	bool has_nodes;
	int devices[GUEST_DEVICES];
	struct guest_redirect *net;
	char *notes;
	size_t size;
};

/* One that the wall left. */
static int clone_device(int root, const struct guest_device *d)
{
	char path[32];
	struct stat st;
	autoclose int at = -1;

	snprintf(path, sizeof(path), "/dev/%s", d->name);
	at = guest_open_at(root, path, O_PATH, FD_IN_ROOT | FD_NO_MAGICLINKS | FD_NO_SYMLINKS);
	if (at < 0)
		return at;
	if (fstat(at, &st) < 0)
		return -errno;
	if (!S_ISCHR(st.st_mode) || st.st_rdev != makedev(d->number >> 8, d->number & 0xff))
		return -ENODEV;
	return mount_clone(at, "", false);
}

static int find_devices(struct setup *s)
{
	int r;

	s->guest.scratch = guest_scratch_new(GUEST_OWN_UID, 0, &s->has_nodes);
	if (s->guest.scratch < 0 || s->has_nodes)
		return s->guest.scratch;
	for (int i = 0; i < GUEST_DEVICES; i++) {
		s->devices[i] = clone_device(s->guest.root, &guest_devices[i]);
		r = s->devices[i] < 0 ? s->devices[i]
				      : mount_set(s->devices[i], MA_NOSUID | MA_NOEXEC, -1);
		if (r < 0)
			return r;
	}
	return 0;
}

static int make_dev(struct setup *s)
{
	autoclose int place = -1;
	int r = find_devices(s);

	if (r >= 0)
		r = place = guest_target_open(s->guest.root, "/dev", true);
	if (r >= 0)
		r = guest_scratch_make(&s->guest, place);
	return r < 0 ? r
		     : guest_dev_make(&s->guest,
				      &(struct guest_dev){.has_nodes = s->has_nodes,
							  .devices = s->devices,
							  .mem_bytes = s->config->mem_bytes,
							  .single = s->config->single});
}

static int make_proc(struct setup *s)
{
	int r = guest_proc_make(&s->guest);

	if (r < 0)
		return r;
	r = guest_covers_hold();
	if (r == 0)
		r = guest_proc_mask(&s->guest);
	for (size_t i = 0; guest_proc_read_only_paths[i] && r == 0; i++)
		r = guest_proc_read_only(&s->guest, guest_proc_read_only_paths[i]);
	return r < 0 ? r : guest_proc_show(&s->guest);
}

static int make_net(struct setup *s)
{
	size_t n = strlen(s->notes);
	int r = guest_loopback_up();

	if (r < 0 || !s->config->net)
		return r;
	r = guest_redirect_make(s->net);
	if (r == 0 && s->net->missing)
		snprintf(s->notes + n, s->size - n,
			 "network: only programs that use the proxy variables reach the door: %s\n",
			 strerror(s->net->missing));
	return r;
}

static int put_files(struct setup *s)
{
	const char *name = s->config->name;
	char hosts[GUEST_HOSTS_MAX];
	int r;

	guest_format_hosts(hosts, name);
	r = guest_put_file(&s->guest, "/etc/hosts", hosts);
	if (r == 0)
		r = guest_put_file(&s->guest, "/etc/hostname", name);
	if (r == 0 && s->config->net)
		r = guest_put_file(&s->guest, "/etc/resolv.conf",
				   "nameserver " GUEST_DNS_ADDR "\n");
	if (r == 0 && s->config->net && s->config->trust_pem)
		r = guest_trust_show(&s->guest, s->config->trust_pem);
	if (r == 0)
		r = guest_dev_show(&s->guest);
	if (r == 0 && (sethostname(name, strlen(name)) < 0 || chdir("/") < 0))
		r = -errno;
	return r;
}

static int hold(struct setup *s)
{
	int r = guest_hold_rlimits(s->config->files, false);

	return r < 0 ? r : guest_hold_caps(s->config->strict);
}

int guest_setup_run(const struct guest_setup *c, struct guest_redirect *ret_net, char *notes,
		    size_t size, struct err *e)
{
	static const struct {
		int (*run)(struct setup *s);
		const char *what;
	} steps[] = {
		{make_dev, "make /dev"},
		{make_proc, "make /proc"},
		{make_net, "make the way to the door"},
		{put_files, "put the box's own files in place"},
		{hold, "drop capabilities"},
	};
	struct setup s = {.config = c,
			  .guest = GUEST_NONE,
			  .devices = {-1, -1, -1, -1, -1, -1},
			  .net = ret_net,
			  .notes = notes,
			  .size = size};
	int r = 0;

	*ret_net = (struct guest_redirect){0};
	umask(022);
	s.guest.root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (s.guest.root < 0)
		return err_errno(e, errno, "open the box's root");
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && r == 0; i++) {
		r = steps[i].run(&s);
		if (r < 0)
			err_set(e, err_kind_of(-r), -r, "%s: %s", steps[i].what, strerror(-r));
	}
	guest_done(&s.guest);
	for (int i = 0; i < GUEST_DEVICES; i++)
		fd_close(&s.devices[i]);
	return r;
}
