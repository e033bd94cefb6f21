/* The plan of a native box, as text: what a reader of plan.h expects is what is there. */
#include "wall/native/plan.h"

#include "base/fd.h"
#include "base/pass.h"
#include "guest/mount.h"
#include "tap.h"
#include "wall/native/hold.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>

static struct plan plan;
static struct ids ids;
static struct cgroup groups;
static struct wall_host held;
static struct volume layer;
static const char *lower;

/* A box on a plain directory, without groups. */
static struct wall_config config(const char *image_root, const char *box_dir, enum ids_kind kind)
{
	cgroup_none(&groups, "");
	ids = (struct ids){.kind = kind};
	held = (struct wall_host){.ids = &ids, .cgroup = &groups};
	layer = VOLUME_NONE;
	layer.ops = &storage_plain;
	lower = image_root;
	return (struct wall_config){.name = "demo",
				    .box_dir = box_dir,
				    .lowers = &lower,
				    .lower_count = 1,
				    .layer = &layer,
				    .host = &held};
}

static const char *const step_names[STEP_KIND_COUNT] = {
	[STEP_SCRATCH] = "scratch", [STEP_ROOT] = "root",	  [STEP_PROC] = "proc",
	[STEP_SYSCTL] = "sysctl",   [STEP_MASKS] = "masks",	  [STEP_READONLY] = "read-only",
	[STEP_DEV] = "dev",	    [STEP_SHOW_DEV] = "show-dev", [STEP_FILE] = "file",
	[STEP_BIND] = "bind",	    [STEP_HOSTNAME] = "hostname", [STEP_LOOPBACK] = "loopback",
	[STEP_TRUST] = "trust",	    [STEP_NET] = "net",		  [STEP_PIVOT] = "pivot",
	[STEP_KEYRING] = "keyring", [STEP_RLIMITS] = "rlimits",	  [STEP_CAPS] = "caps",
	[STEP_BIND_IN] = "bind",    [STEP_OWN_PROC] = "own-proc", [STEP_SHOW_PROC] = "show-proc",
	[STEP_CPUS] = "cpus",	    [STEP_LANDLOCK] = "landlock", [STEP_SECCOMP] = "seccomp",
	[STEP_NEST] = "nest",	    [STEP_STACK] = "stack",	  [STEP_SECRET] = "secret",
	[STEP_CTL] = "ctl",
};

/* One line per source and per step. */
static int print_plan(const struct plan *p, struct buf *out)
{
	static const char *const maps[] = {"", " idmap=box", " idmap=owner"};
	int r = 0;

	for (int i = 0; i < p->source_count && r == 0; i++) {
		const struct plan_source *s = &p->sources[i];

		r = buf_printf(out, "source %d %s%s%s%s%s%s\n", i, s->path,
			       s->beneath ? " beneath " : "", s->beneath ? s->beneath : "",
			       s->absent		    ? " (tmpfs)"
			       : s->mount_fd > 0 || s->late ? " (volume)"
							    : "",
			       maps[s->idmap], s->attrs & MA_RDONLY ? " ro" : "");
	}
	for (int i = 0; i < p->step_count && r == 0; i++) {
		const struct step *s = &p->steps[i];

		r = buf_printf(out, "step %s%s%s", step_names[s->kind], s->a ? " " : "",
			       s->a ? s->a : "");
		if (r == 0)
			r = s->source >= 0 ? buf_printf(out, " <- source %d\n", s->source)
					   : buf_append_str(out, "\n");
	}
	return r;
}

static const char *format(const struct wall_config *c, struct buf *out)
{
	struct err e = {0};

	CHECK_EQ(plan_make(&plan, c, &e), 0);
	buf_init(out, 1 << 16);
	CHECK_EQ(print_plan(&plan, out), 0);
	return buf_cstr(out);
}

static int position(const char *text, const char *line)
{
	const char *at = strstr(text, line);

	CHECK(at != NULL);
	return (int)(at - text);
}

TEST(the_steps_come_in_the_order_that_makes_them_safe)
{
	struct wall_config c = config("/i", "/b", IDS_RANGE);
	struct buf out;
	const char *text = format(&c, &out);

	CHECK(position(text, "step scratch") < position(text, "step dev"));
	CHECK(position(text, "step dev") < position(text, "step proc"));
	CHECK(position(text, "step proc") < position(text, "step root"));
	CHECK(position(text, "step root") < position(text, "step show-dev"));
	CHECK(position(text, "step root") < position(text, "step show-proc"));
	CHECK(position(text, "step show-dev") < position(text, "step pivot"));
	CHECK(position(text, "step sysctl user/max_user_namespaces") <
	      position(text, "step read-only sys"));
	CHECK(position(text, "step own-proc") < position(text, "step pivot"));
	CHECK(position(text, "step masks") < position(text, "step show-proc"));
	CHECK(position(text, "step read-only sys") < position(text, "step show-proc"));
	CHECK(position(text, "step show-proc") < position(text, "step pivot"));
	CHECK(position(text, "step pivot") < position(text, "step seccomp"));
	CHECK(position(text, "step keyring") < position(text, "step seccomp"));
	CHECK(position(text, "step rlimits") < position(text, "step seccomp"));
	CHECK(position(text, "step seccomp") < position(text, "step caps"));
	if (plan.landlock_abi > 0) {
		CHECK(position(text, "step pivot") < position(text, "step landlock"));
		CHECK(position(text, "step landlock") < position(text, "step seccomp"));
	}
	buf_done(&out);
}

TEST(cove_ctl_only_where_it_is_given)
{
	struct wall_config c = config("/i", "/b", IDS_RANGE);
	struct buf out;
	const char *text = format(&c, &out);

	CHECK(!strstr(text, "step ctl"));
	buf_done(&out);
	c.ctl_fd = 77;
	text = format(&c, &out);
	CHECK(position(text, "step dev") < position(text, "step ctl"));
	CHECK(position(text, "step ctl") < position(text, "step show-dev"));
	buf_done(&out);
}

/* Whoever is charged for all of an ordinary user's box can only be bounded one level up; with one
 * id, and as root with an owner of the box's own, there is no need. */
TEST(an_ordinary_users_box_is_charged_as_one)
{
	struct wall_config c = config("/i", "/b", IDS_SUBORDINATE);
	struct buf out;
	const char *text = format(&c, &out);

	CHECK(position(text, "step sysctl user/max_inotify_instances") <
	      position(text, "step read-only sys"));
	CHECK(position(text, "step pivot") < position(text, "step nest"));
	CHECK(position(text, "step rlimits") < position(text, "step nest"));
	CHECK(position(text, "step nest") < position(text, "step seccomp"));
	buf_done(&out);
	ids.kind = IDS_SINGLE;
	text = format(&c, &out);
	position(text, "step sysctl user/max_inotify_watches");
	CHECK(!strstr(text, "step nest"));
	buf_done(&out);
	ids.kind = IDS_RANGE;
	text = format(&c, &out);
	CHECK(!strstr(text, "step nest") && !strstr(text, "inotify"));
	buf_done(&out);
}

/* While rules may still be set, and before the layer that may come late; a box without a network
 * has none of it. */
TEST(the_way_to_the_door)
{
	struct wall_config c = config("/i", "/b", IDS_RANGE);
	struct buf out;
	const char *text = format(&c, &out);

	CHECK(!strstr(text, "step net") && !strstr(text, "resolv.conf"));
	CHECK(strstr(text, "step loopback"));
	buf_done(&out);
	c.net.on = true;
	text = format(&c, &out);
	CHECK(position(text, "step loopback") < position(text, "step net\n"));
	CHECK(position(text, "step net\n") < position(text, "step root"));
	CHECK(position(text, "step root") < position(text, "step file /etc/resolv.conf"));
	CHECK(position(text, "step file /etc/resolv.conf") < position(text, "step pivot"));
	buf_done(&out);
}

/* Over whatever the image and the mounts brought, and before nothing can be mounted any more. */
TEST(what_it_trusts)
{
	struct wall_mount m = {.src = "/h", .dst = "/etc/ssl"};
	struct wall_config c = config("/i", "/b", IDS_RANGE);
	struct buf out;
	const char *text;

	c.mounts = &m;
	c.mount_count = 1;
	c.net = (struct wall_net){.on = true};
	text = format(&c, &out);
	CHECK(!strstr(text, "step trust"));
	buf_done(&out);
	c.net.trust_pem = "pem";
	text = format(&c, &out);
	CHECK(position(text, "step bind /etc/ssl") < position(text, "step trust\n"));
	CHECK(position(text, "step trust\n") < position(text, "step pivot"));
	buf_done(&out);
}

TEST(a_box_that_writes_to_the_host_has_the_stricter_filter)
{
	struct wall_mount m = {.src = "/srv/data", .dst = "/data"};
	struct wall_config c = config("/i", "/b", IDS_RANGE);
	struct buf out;

	c.mounts = &m;
	c.mount_count = 1;
	position(format(&c, &out), "step seccomp shared\n");
	buf_done(&out);
	m.read_only = true;
	position(format(&c, &out), "step seccomp\n");
	buf_done(&out);
	m = (struct wall_mount){.src = "/w", .dst = "/workspace", .owned = true};
	position(format(&c, &out), "step seccomp\n");
	buf_done(&out);
}

/* Neither opened nor mapped before it is there. */
TEST(a_layer_that_comes_late)
{
	struct wall_config c = config("/", "/nowhere", IDS_SINGLE);
	struct err e = {0};
	struct buf out;
	const char *text;

	layer.file_fd = 7;
	text = format(&c, &out);
	position(text, "source 0 /nowhere (volume) idmap=box\n");
	CHECK(plan.sources[PLAN_RW].late);
	buf_done(&out);
	if (geteuid() == 0) {
		CHECK_EQ(plan_open_sources(&plan, &e), 0);
		CHECK(plan.sources[PLAN_LOWER].fd >= 0);
		CHECK_EQ(plan.sources[PLAN_RW].fd, -1);
	}
	plan_done(&plan);
	layer.ops = &storage_tmpfs;
	text = format(&c, &out);
	CHECK(!plan.sources[PLAN_RW].late); /* in memory there is nothing to wait for */
	buf_done(&out);
	plan_done(&plan);
}

static void pair(int ret[2])
{
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ret), 0);
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

TEST(descriptors_over_a_socket)
{
	int sock[2], got[PASS_MAX], sent[2], next;

	pair(sock);
	sent[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	sent[1] = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	CHECK_EQ(pass_send(sock[0], sent, 2), 0);
	CHECK_EQ(pass_receive(sock[1], got, 2), 0);
	CHECK_EQ(fcntl(got[0], F_GETFD), FD_CLOEXEC);
	CHECK(got[0] != got[1] && is_open(got[1]));
	close(got[0]);
	close(got[1]);

	/* Another number than expected: none is taken, none is left open. */
	next = open("/dev/null", O_RDONLY | O_CLOEXEC);
	close(next);
	CHECK_EQ(pass_send(sock[0], sent, 2), 0);
	CHECK_EQ(pass_receive(sock[1], got, 1), -EPIPE);
	CHECK(!is_open(next) && !is_open(next + 1));

	/* A byte without any, and nobody there. */
	CHECK_EQ(write(sock[0], "x", 1), 1);
	CHECK_EQ(pass_receive(sock[1], got, 1), -EPIPE);
	close(sock[0]);
	CHECK_EQ(pass_receive(sock[1], got, 1), -EPIPE);
	CHECK_EQ(pass_send(sock[1], sent, 1), -EPIPE);
	close(sock[1]);
	close(sent[0]);
	close(sent[1]);
}

/* The new process may end before it has read what it was sent: why is said elsewhere. */
TEST(an_end_that_went_with_something_unread_is_gone_like_any_other)
{
	int sock[2], got, null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	for (int sends = 0; sends < 2; sends++) {
		CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sock), 0);
		CHECK_EQ(pass_send(sock[0], &null, 1), 0);
		close(sock[1]);
		CHECK_EQ(sends ? pass_send(sock[0], &null, 1) : pass_receive(sock[0], &got, 1),
			 -EPIPE);
		close(sock[0]);
	}
	close(null);
}

TEST(volumes_parts_of_them_and_the_boxs_own_proc)
{
	struct volume work = {.mount_fd = 7};
	struct wall_mount mounts[] = {
		{.src = "work", .volume = &work, .dst = "/workspace", .owned = true},
		{.src = "work", .volume = &work, .beneath = "data", .dst = "/data"},
	};
	struct wall_config c = config("/i", "/b", IDS_RANGE);
	struct err e = {0};
	struct buf out;
	const char *text;

	layer.mount_fd = 5;
	c.limits = (struct wall_limits){.cpus = 1};
	c.mounts = mounts;
	c.mount_count = 2;
	text = format(&c, &out);
	position(text, "source 0 /b (volume) idmap=box\n");
	position(text, "work (volume) idmap=box\n");
	CHECK(position(text, "step masks") < position(text, "step show-proc"));
	position(text, "step cpus");
	buf_done(&out);
	layer.ops = &storage_tmpfs;
	position(format(&c, &out), "source 0 /b (tmpfs)");
	buf_done(&out);
	/* Of a volume that is shown nowhere, or is not attached. */
	mounts[1].volume = &layer;
	CHECK(plan_make(&plan, &c, &e) < 0);
	work.mount_fd = -1;
	c.mount_count = 1;
	CHECK(plan_make(&plan, &c, &e) < 0);
}

/* What is below is read-only, whosever it is, and the host is not written to. */
TEST(an_overlay_of_its_own)
{
	const struct wall_lower lowers[] = {{.path = "/l/two", .owned = true},
					    {.path = "/srv/repo", .uid = 7, .gid = 8}};
	struct volume work = {.mount_fd = 7};
	struct wall_mount m = {.src = "/srv/repo",
			       .dst = "/workspace",
			       .lowers = lowers,
			       .lower_count = 2,
			       .upper = "copy"};
	struct wall_config c = config("/i", "/b", IDS_RANGE);
	struct err e = {0};
	struct buf out;
	const char *text;

	c.mounts = &m;
	c.mount_count = 1;
	text = format(&c, &out);
	position(text, "/l/two idmap=box ro\n");
	position(text, "/srv/repo idmap=owner ro\n");
	CHECK(position(text, "step root") < position(text, "step stack /workspace <- source"));
	CHECK(position(text, "step stack") < position(text, "step pivot"));
	position(text, "step seccomp\n");
	buf_done(&out);
	m.volume = &work;
	text = format(&c, &out);
	CHECK(position(text, "/srv/repo (volume) idmap=box\n") < position(text, "/l/two"));
	buf_done(&out);
	m.lower_count = 0;
	CHECK(plan_make(&plan, &c, &e) < 0);
	m.lower_count = WALL_LOWERS_MAX + 1;
	CHECK(plan_make(&plan, &c, &e) < 0);
}

TEST(image_and_writes_are_id_mapped_and_the_image_is_read_only)
{
	struct wall_config c = config("/i", "/b", IDS_RANGE);
	struct buf out;
	const char *text = format(&c, &out);

	position(text, "source 1 /i idmap=box ro\n");
	position(text, "source 0 /b idmap=box\n");
	buf_done(&out);
}

TEST(mounts_keep_their_order_and_their_trust)
{
	struct wall_mount mounts[] = {
		{.src = "/state/workspaces/w", .dst = "/workspace", .owned = true},
		{.src = "/state/workspaces/w",
		 .beneath = "data",
		 .dst = "/data",
		 .read_only = true,
		 .owned = true},
		{.src = "/srv/models", .dst = "/models", .read_only = true},
	};
	struct wall_config c = config("/i", "/b", IDS_RANGE);
	struct buf out;
	const char *text;

	c.mounts = mounts;
	c.mount_count = 3;
	text = format(&c, &out);
	position(text, "/state/workspaces/w idmap=box\n");
	position(text, "/state/workspaces/w beneath data idmap=box ro\n");
	position(text, "/srv/models idmap=owner ro\n");
	CHECK(position(text, "step bind /workspace") < position(text, "step bind /data"));
	buf_done(&out);
}

TEST(too_many_mounts_are_refused)
{
	static struct wall_mount mounts[WALL_MOUNTS_MAX + 1];
	struct wall_config c = config("/i", "/b", IDS_RANGE);
	struct err e = {0};

	c.mounts = mounts;
	c.mount_count = WALL_MOUNTS_MAX + 1;
	CHECK(plan_make(&plan, &c, &e) < 0);
	CHECK_EQ(e.kind, ERR_LIMIT);
}

/* A source below a workspace is opened as the box left it: links and ".." must not lead out. */
TEST(a_source_beneath_a_workspace_cannot_leave_it)
{
	static const char *const bad[] = {"out", "..", "sub/../../etc", "/etc"};
	char dir[] = "/tmp/cove-plan-XXXXXX", path[96];

	if (getuid() != 0)
		SKIP("cloning mounts needs root, or a namespace of one's own");
	CHECK(mkdtemp(dir) != NULL);
	snprintf(path, sizeof(path), "%s/out", dir);
	CHECK_EQ(symlink("/etc", path), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct wall_mount m = {.src = dir, .beneath = bad[i], .dst = "/x"};
		struct wall_config c = config(dir, dir, IDS_RANGE);
		struct err e = {0};

		c.mounts = &m;
		c.mount_count = 1;
		CHECK_EQ(plan_make(&plan, &c, &e), 0);
		CHECK(plan_open_sources(&plan, &e) < 0);
		plan_done(&plan);
	}
	unlink(path);
	rmdir(dir);
}

/* How what is mounted at place propagates: what mountinfo has between its options and " - ". */
static void propagation(const char *place, char *ret, size_t size)
{
	char line[1024], at[256];
	FILE *in = fopen("/proc/self/mountinfo", "re");

	CHECK(in != NULL);
	snprintf(ret, size, "not mounted");
	while (fgets(line, sizeof(line), in)) {
		int end = 0;
		char *dash = strstr(line, " - ");

		if (sscanf(line, "%*d %*d %*s %*s %255s %*s%n", at, &end) != 1 || !dash ||
		    strcmp(at, place) != 0)
			continue;
		*dash = 0;
		snprintf(ret, size, "%s", line + end);
	}
	fclose(in);
}

/* Every source, in a namespace whose mounts are shared as on most hosts. */
TEST(sources_are_private_copies_of_shared_mounts)
{
	char dir[] = "/tmp/cove-plan-XXXXXX", place[96], how[256];
	struct wall_mount m = {.src = dir, .dst = "/x"};
	struct wall_config c = config(dir, dir, IDS_SINGLE);
	struct err e = {0};

	c.image_is_host = true;
	c.mounts = &m;
	c.mount_count = 1;
	if (getuid() != 0 || unshare(CLONE_NEWNS) < 0)
		SKIP("cloning mounts needs root, or a namespace of one's own");
	CHECK(mkdtemp(dir) != NULL);
	CHECK_EQ(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	CHECK_EQ(mount("t", dir, "tmpfs", 0, NULL), 0);
	CHECK_EQ(mount(NULL, "/", NULL, MS_REC | MS_SHARED, NULL), 0);
	propagation(dir, how, sizeof(how));
	CHECK(strstr(how, "shared:") != NULL);
	CHECK_EQ(plan_make(&plan, &c, &e), 0);
	CHECK_EQ(plan_open_sources(&plan, &e), 0);
	CHECK(plan.source_count > 2 + GUEST_DEVICES);
	/* A place of its own, which shares nothing with what is mounted on it. */
	snprintf(place, sizeof(place), "%s/place", dir);
	CHECK_EQ(mount(NULL, dir, NULL, MS_PRIVATE, NULL), 0);
	for (int i = 0; i < plan.source_count; i++) {
		struct plan_source *s = &plan.sources[i];

		if (s->is_dir)
			CHECK_EQ(mkdir(place, 0755), 0);
		else
			CHECK_EQ(mknod(place, S_IFREG | 0644, 0), 0);
		CHECK_EQ(mount_attach(s->fd, AT_FDCWD, place), 0);
		propagation(place, how, sizeof(how));
		CHECK_STR(how, "");
		CHECK_EQ(umount2(place, MNT_DETACH), 0);
		CHECK_EQ(remove(place), 0);
	}
	plan_done(&plan);
	CHECK_EQ(umount2(dir, MNT_DETACH), 0);
	rmdir(dir);
}

TEST(devices_of_its_own_are_for_everybody)
{
	char dir[] = "/tmp/cove-plan-XXXXXX";
	struct wall_config c = config(dir, dir, IDS_RANGE);
	struct err e = {0};
	struct stat dev;

	if (getuid() != 0)
		SKIP("making devices needs root");
	CHECK(mkdtemp(dir) != NULL);
	umask(077);
	CHECK_EQ(plan_make(&plan, &c, &e), 0);
	CHECK_EQ(plan_open_sources(&plan, &e), 0);
	rmdir(dir);
	CHECK_EQ(umask(022), 077);
	if (!plan.has_nodes)
		SKIP("this root may make no devices");
	/* Box root makes files beside them, and can neither remove nor replace them. */
	CHECK_EQ(fstatat(plan.scratch, "dev", &dev, 0), 0);
	CHECK_EQ(dev.st_mode, S_IFDIR | 01775);
	CHECK_EQ(dev.st_uid, 0);
	CHECK_EQ(dev.st_gid, ids_host_gid(plan.ids, 0));
	for (int i = 0; i < GUEST_DEVICES; i++) {
		const struct plan_source *s = &plan.sources[plan.first_device + i];
		struct stat st, host;
		char path[32];

		CHECK_EQ(s->fd, -1);
		snprintf(path, sizeof(path), "dev%s", strrchr(s->path, '/'));
		CHECK_EQ(fstatat(plan.scratch, path, &st, 0), 0);
		CHECK_EQ(stat(s->path, &host), 0);
		CHECK_EQ(st.st_mode, S_IFCHR | 0666);
		CHECK_EQ(st.st_rdev, host.st_rdev);
		CHECK(st.st_dev != host.st_dev);
	}
	plan_done(&plan);
	CHECK_EQ(plan.scratch, -1);
}

static uint64_t step_random(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return *state >> 32;
}

/* Each processor comes about as often as any other, wherever it is, and none that is not there. */
TEST(every_processor_is_somebodys_first)
{
	static const int sets[][4] = {{0, 1}, {0, 1, 2, 3}, {5, 6, 700, 1023}, {1, 3, 64, 65}};
	enum { ROUNDS = 4000 };
	uint64_t state = 1;

	for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
		unsigned n = i == 0 ? 2 : 4, times[4] = {0};
		cpu_set_t have, take, both;

		CPU_ZERO(&have);
		for (unsigned j = 0; j < n; j++)
			CPU_SET(sets[i][j], &have);
		for (int round = 0; round < ROUNDS; round++) {
			hold_choose_cpus(&have, 1, (unsigned)step_random(&state), &take);
			CHECK_EQ(CPU_COUNT(&take), 1);
			for (unsigned j = 0; j < n; j++)
				times[j] += CPU_ISSET(sets[i][j], &take) ? 1 : 0;
		}
		for (unsigned j = 0; j < n; j++)
			CHECK(times[j] > ROUNDS / n / 2 && times[j] < ROUNDS / n * 2);
		for (unsigned count = 1; count <= n + 1; count++) {
			hold_choose_cpus(&have, count, (unsigned)step_random(&state), &take);
			CPU_AND(&both, &have, &take);
			CHECK(CPU_EQUAL(&both, &take));
			CHECK_EQ(CPU_COUNT(&take), (int)(count < n ? count : n));
		}
	}
}

TAP_MAIN
