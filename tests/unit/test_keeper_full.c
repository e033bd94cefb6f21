/* How a box ended is known although the disk was full by then. */
#include "base/fd.h"
#include "store/record.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>

static void write_to(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	CHECK(fd >= 0 && write(fd, text, strlen(text)) > 0);
	close(fd);
}

/* A small filesystem of our own at path, seen by this process only. False where that is refused. */
static bool mount_small(const char *path)
{
	unsigned uid = getuid(), gid = getgid();
	char map[64];

	if (uid == 0 ? unshare(CLONE_NEWNS) < 0 : unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return false;
	if (uid != 0) {
		write_to("/proc/self/setgroups", "deny");
		snprintf(map, sizeof(map), "%u %u 1", uid, uid);
		write_to("/proc/self/uid_map", map);
		snprintf(map, sizeof(map), "%u %u 1", gid, gid);
		write_to("/proc/self/gid_map", map);
	}
	return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount("tmpfs", path, "tmpfs", 0, "size=262144,mode=0700") == 0;
}

static void fill(const char *path)
{
	char name[100], bytes[4096] = "x";
	int fd;

	snprintf(name, sizeof(name), "%s/filler", path);
	fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	while (write(fd, bytes, sizeof(bytes)) > 0)
		;
	CHECK_EQ(errno, ENOSPC);
	close(fd);
}

struct place {
	char path[64];
	struct state st;
	int box_fd;
	int run_fd; /* the record, not locked: no keeper runs */
};

static void place_init(struct place *p)
{
	struct spec spec = {.name = "dev", .image = "host", .wall = "native", .created_ms = 1};
	struct err e = {0};

	*p = (struct place){.path = "/tmp/cove-full-XXXXXX"};
	CHECK(mkdtemp(p->path));
	if (!mount_small(p->path)) {
		rmdir(p->path);
		SKIP("no mount namespace of its own is to be had");
	}
	CHECK_EQ(state_open(&p->st, p->path, true, &e), 0);
	CHECK_EQ(record_create(&p->st, &spec, &p->box_fd, &e), 0);
	p->run_fd = openat(p->box_fd, "record", O_RDWR | O_CLOEXEC);
	CHECK(p->run_fd >= 0);
}

static void place_done(struct place *p)
{
	close(p->run_fd);
	close(p->box_fd);
	state_close(&p->st);
	CHECK_EQ(umount2(p->path, MNT_DETACH), 0);
	CHECK_EQ(rmdir(p->path), 0);
}

#define PLACE_TEST(name)                                                                        \
	TEST_IN(name, (struct place * p), struct place place; place_init(&place); body(&place); \
		place_done(&place);)

static void must_have_ended(struct place *p, const char *cause, const char *by)
{
	struct record r;

	CHECK_EQ(record_load(&p->st, "dev", &r, NULL), 0);
	CHECK_EQ(r.state, BOX_STOPPED);
	CHECK_STR(r.cause, cause);
	CHECK_STR(r.by, by);
	CHECK(r.ended_ms > 0);
	record_done(&r);
}

PLACE_TEST(an_end_on_a_full_disk)
{
	CHECK_EQ(record_write_live(p->run_fd, true, NULL), 0);
	fill(p->path);
	CHECK_EQ(record_write_end(p->box_fd, "stopped", "cove stop", true, NULL), 0);
	must_have_ended(p, "stopped", "cove stop");
	/* The first end stays, also now. */
	CHECK_EQ(record_write_end(p->box_fd, "keeper lost", "", true, NULL), 0);
	must_have_ended(p, "stopped", "cove stop");
}

TEST(the_longest_end)
{
	struct place p;
	char cause[64], by[64];

	memset(cause, '\n', sizeof(cause));
	memset(by, '\\', sizeof(by));
	cause[63] = by[63] = 0;
	place_init(&p);
	CHECK_EQ(record_write_live(p.run_fd, true, NULL), 0);
	fill(p.path);
	CHECK_EQ(record_write_end(p.box_fd, cause, by, true, NULL), 0);
	must_have_ended(&p, cause, by);
	place_done(&p);
}

PLACE_TEST(the_first_start_on_a_full_disk)
{
	fill(p->path);
	CHECK_EQ(record_write_live(p->run_fd, true, NULL), 0);
	CHECK_EQ(record_write_end(p->box_fd, "stopped", "", true, NULL), 0);
	must_have_ended(p, "stopped", "");
}

PLACE_TEST(run_after_run)
{
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(record_write_live(p->run_fd, true, NULL), 0);
		fill(p->path); /* the second and third time it is full already */
		CHECK_EQ(record_set_paused(p->run_fd, true, NULL, NULL), 0);
		CHECK_EQ(record_write_end(p->box_fd, "stopped", "", true, NULL), 0);
		must_have_ended(p, "stopped", "");
	}
}

TAP_MAIN
