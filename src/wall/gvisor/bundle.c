/*
 * The OCI configuration of a box behind gVisor; see gvisor.h.
 *
 * What runsc reads: who init is and what it may do, the box's tree, and the mounts. Namespaces are
 * not among it, since runsc runs in those that the box has, and neither are limits: its processes
 * are in the box's groups from birth.
 */
#include "base/json.h"
#include "base/str.h"
#include "guest/guest.h"
#include "guest/hold.h"
#include "wall/gvisor/gvisor.h"
#include "wall/host.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void put_strings(struct json *j, const char *key, const char *const *list)
{
	json_key(j, key);
	json_array_begin(j);
	for (; list && *list; list++)
		json_str(j, *list);
	json_array_end(j);
}

/* init: also what init needs until it has put it down (guest/engine.h), and to look at other users'
 * processes; gVisor's kernel is no more than the box's. */
static void put_caps(struct json *j, const char *key, bool some, bool init)
{
	const char *at = guest_hold_caps_text(false);
	char name[48];

	json_key(j, key);
	json_array_begin(j);
	for (size_t n; some && *at; at += n + (at[n] == ' ')) {
		int len;

		n = strcspn(at, " ");
		len = snprintf(name, sizeof(name), "CAP_%.*s", (int)n, at);
		for (int i = 0; i < len; i++)
			if (name[i] >= 'a' && name[i] <= 'z')
				name[i] = (char)(name[i] - 'a' + 'A');
		json_str(j, name);
	}
	if (init) {
		json_str(j, "CAP_SYS_ADMIN");
		json_str(j, "CAP_SYS_PTRACE");
	}
	json_array_end(j);
}

static void put_limit(struct json *j, const char *type, uint64_t soft, uint64_t hard)
{
	json_object_begin(j);
	json_kv_str(j, "type", type);
	json_kv_u64(j, "soft", soft);
	json_kv_u64(j, "hard", hard);
	json_object_end(j);
}

/* Those of guest/hold.h. */
static void put_limits(struct json *j, const struct wall_config *c)
{
	enum { SOFT = 1024, HARD = 65536, LOCKED = 8 << 20, STACK = 8 << 20 };
	uint64_t files = c->limits.files ? c->limits.files : HARD;

	json_key(j, "rlimits");
	json_array_begin(j);
	put_limit(j, "RLIMIT_NOFILE", files < SOFT ? files : SOFT, files);
	put_limit(j, "RLIMIT_MEMLOCK", LOCKED, LOCKED);
	put_limit(j, "RLIMIT_STACK", STACK, UINT64_MAX);
	put_limit(j, "RLIMIT_CORE", 1, 1); /* gVisor writes none; as in a native box */
	json_array_end(j);
}

/* JSON is UTF-8: another byte would become another text, and a directory lie elsewhere. */
static int check_texts(const struct gvisor_build *g)
{
	for (char *const *arg = g->config->init_argv; *arg; arg++)
		if (!str_is_utf8(*arg, strlen(*arg)))
			return -EILSEQ;
	for (size_t i = 0; i < g->given_count; i++)
		if (!str_is_utf8(g->given[i].dst, strlen(g->given[i].dst)))
			return -EILSEQ;
	return 0;
}

static void put_args(struct json *j, const struct gvisor_build *g)
{
	char *const *arg = g->config->init_argv;

	json_key(j, "args");
	json_array_begin(j);
	if (!(g->runsc.has & GVISOR_SETTINGS)) {
		json_str(j, GVISOR_BOX_INIT);
		arg++;
	}
	for (; *arg; arg++)
		json_str(j, *arg);
	json_str(j, "--engine");
	if (plan_is_shared(g->config))
		json_str(j, "--engine-shared");
	if (g->config->ptrace)
		json_str(j, "--engine-ptrace");
	if (g->has_start_file) {
		json_str(j, "--start-file");
		json_str(j, GVISOR_START);
	}
	if (g->config->net.on) {
		json_str(j, "--net-listen");
		json_str(j, g->is_led ? "led" : "plain");
	}
	json_array_end(j);
}

/* As guest_hold_caps leaves them: with strict init keeps what it needs to become others by what it
 * inherits, and nothing is in bounds for anybody else. What init alone has is never in bounds: it
 * gets it by inheritance, which it stops. */
static void put_process(struct json *j, const struct gvisor_build *g)
{
	static const char *const env[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:"
					  "/sbin:/bin",
					  NULL};
	/* An old runsc gives its sandbox process what is listed here, on the host. */
	bool strict = g->config->strict, more = g->runsc.has & GVISOR_SETTINGS;

	json_key(j, "process");
	json_object_begin(j);
	json_kv_bool(j, "terminal", false);
	json_key(j, "user");
	json_object_begin(j);
	json_kv_u64(j, "uid", 0);
	json_kv_u64(j, "gid", 0);
	json_object_end(j);
	put_args(j, g);
	put_strings(j, "env", env);
	json_kv_str(j, "cwd", "/");
	json_key(j, "capabilities");
	json_object_begin(j);
	put_caps(j, "bounding", !strict, false);
	put_caps(j, "effective", true, more);
	put_caps(j, "permitted", true, more);
	put_caps(j, "inheritable", strict, more);
	json_object_end(j);
	put_limits(j, g->config);
	json_kv_bool(j, "noNewPrivileges", strict);
	json_object_end(j);
}

/* options: until NULL. */
static void put_mount(struct json *j, const char *dst, const char *type, const char *source, ...)
{
	const char *option;
	va_list args;

	json_object_begin(j);
	json_kv_str(j, "destination", dst);
	json_kv_str(j, "type", type);
	json_kv_str(j, "source", source);
	json_key(j, "options");
	json_array_begin(j);
	va_start(args, source);
	while ((option = va_arg(args, const char *)))
		json_str(j, option);
	va_end(args);
	json_array_end(j);
	json_object_end(j);
}

static uint64_t machine_bytes(void)
{
	return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void put_mounts(struct json *j, const struct gvisor_build *g)
{
	const struct wall_config *c = g->config;
	char shm[40], from[64], to[64];

	/* An old runsc knows no shares of the memory. */
	snprintf(shm, sizeof(shm), "size=%llu",
		 (unsigned long long)(c->limits.mem_bytes ? c->limits.mem_bytes : machine_bytes()) /
			 2);
	json_key(j, "mounts");
	json_array_begin(j);
	put_mount(j, "/proc", "proc", "proc", "nosuid", "nodev", "noexec", NULL);
	put_mount(j, "/sys", "sysfs", "sysfs", "nosuid", "nodev", "noexec", "ro", NULL);
	put_mount(j, "/dev/pts", "devpts", "devpts", "nosuid", "noexec", "ptmxmode=0666",
		  "mode=0620", NULL);
	put_mount(j, "/dev/shm", "tmpfs", "shm", "nosuid", "nodev", "noexec", "mode=1777", shm,
		  NULL);
	/* Where shell lines pass through: init.h. */
	put_mount(j, "/dev/cove", "tmpfs", "cove", "nosuid", "nodev", "noexec", "mode=1733",
		  "size=64m", NULL);
	if (!(g->runsc.has & GVISOR_SETTINGS))
		put_mount(j, GVISOR_BOX_INIT, "bind", GVISOR_INIT, "bind", "ro", "nosuid", "nodev",
			  NULL);
	for (int i = 0; i < WALL_PROC_FILE_COUNT; i++) {
		snprintf(from, sizeof(from), GVISOR_COVERS "/%s", wall_proc_names[i]);
		snprintf(to, sizeof(to), "/proc/%s", wall_proc_names[i]);
		put_mount(j, to, "bind", from, "bind", "ro", "nosuid", "nodev", "noexec", NULL);
	}
	if (c->net.on && c->net.trust_pem)
		put_mount(j, "/dev" GVISOR_TRUST, "bind", GVISOR_TRUST, "bind", "ro", "nosuid",
			  "nodev", "noexec", NULL);
	if (c->ctl_fd > 0)
		put_mount(j, GUEST_CTL_DIR, "bind", GVISOR_CTL, "bind", "ro", "nosuid", "nodev",
			  NULL);
	for (size_t i = 0; i < g->given_count; i++) {
		const struct gvisor_given *one = &g->given[i];

		put_mount(j, one->dst, "bind", one->source, "rbind", one->read_only ? "ro" : "rw",
			  "nosuid", "nodev", NULL);
	}
	json_array_end(j);
}

int gvisor_bundle_write(const struct gvisor_build *g, struct buf *out)
{
	struct json j;
	int r = check_texts(g);

	if (r < 0)
		return r;
	json_init(&j, out);
	json_object_begin(&j);
	json_kv_str(&j, "ociVersion", "1.0.2");
	put_process(&j, g);
	json_key(&j, "root");
	json_object_begin(&j);
	json_kv_str(&j, "path", GVISOR_TREE);
	json_kv_bool(&j, "readonly", false);
	json_object_end(&j);
	json_kv_str(&j, "hostname", g->config->name);
	put_mounts(&j, g);
	json_key(&j, "linux");
	json_object_begin(&j);
	json_object_end(&j);
	json_object_end(&j);
	return j.error;
}
