/* Which storage a box gets, and which limit that cannot be kept is refused or noted. */
#include "base/fd.h"
#include "keeper/life.h"
#include "keeper_rig.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>

struct place {
	char path[64];
	struct keeper_life l;
};

static void place_init(struct place *p)
{
	char why[200];

	*p = (struct place){.path = "/tmp/cove-limits-XXXXXX",
			    .l = {.volume = VOLUME_NONE, .workspace = VOLUME_NONE}};
	CHECK(mkdtemp(p->path));
	keeper_init(&p->l.k, -1);
	p->l.box_fd = open(p->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	p->l.st.home_fd = p->l.st.boxes_fd = p->l.box_fd;
	p->l.config.spec = (struct spec){.name = "dev", .limits = {[LIMIT_DISK] = 10ull << 30}};
	CHECK_EQ(ids_detect(&p->l.ids, why, sizeof(why), NULL), 0);
}

static void place_done(struct place *p)
{
	volume_done(&p->l.volume);
	buf_done(&p->l.k.notes);
	close(p->l.box_fd);
	remove_temporary(p->path);
}

#define PLACE_TEST(name)                                                                        \
	TEST_IN(name, (struct place * p), struct place place; place_init(&place); body(&place); \
		place_done(&place);)

static const char *notes_of(struct place *p)
{
	const char *notes = buf_cstr(&p->l.k.notes);

	return notes ? notes : "";
}

static void must_refuse(struct place *p, enum err_kind kind, const char *word)
{
	struct err e = {0};

	CHECK(keeper_limits_open_volume(&p->l, &e) < 0);
	CHECK_EQ(e.kind, kind);
	CHECK(strstr(e.msg, word) != NULL);
	CHECK_STR(notes_of(p), "");
}

static void must_open(struct place *p, const char *storage)
{
	struct err e = {0};

	CHECK_EQ(keeper_limits_open_volume(&p->l, &e), 0);
	CHECK_STR(p->l.volume.ops->name, storage);
	CHECK_STR(p->l.k.storage, storage);
}

PLACE_TEST(a_storage_that_there_is_not)
{
	p->l.config.spec.storage = "floppy";
	must_refuse(p, ERR_INVALID, "floppy");
}

PLACE_TEST(memory_for_what_should_survive)
{
	p->l.config.spec.storage = "tmpfs";
	p->l.config.spec.persistence = PERSIST_BOX;
	must_refuse(p, ERR_INVALID, "would not survive");
}

PLACE_TEST(plain_does_not_keep_a_limit)
{
	p->l.config.spec.storage = "plain";
	p->l.config.spec.limits_asked = 1u << LIMIT_DISK;
	must_refuse(p, ERR_UNSUPPORTED, "--disk 10 GiB cannot be kept here: ");
	p->l.config.spec.best_effort = true;
	must_open(p, "plain");
	CHECK(strncmp(notes_of(p), "disk: ", 6) == 0);
	CHECK(!keeper_limits_hold(&p->l, LIMIT_DISK));
}

PLACE_TEST(a_default_is_only_noted)
{
	p->l.config.spec.storage = "plain";
	must_open(p, "plain");
	CHECK(strncmp(notes_of(p), "disk: ", 6) == 0);
}

/* As root a disk is made without a word, for a box of one command too. */
TEST(a_default_disk)
{
	struct place p;
	struct err e = {0};

	for (int one_shot = 0; one_shot < 2; one_shot++) {
		place_init(&p);
		p.l.config.spec.one_shot = one_shot;
		p.l.config.spec.limits[LIMIT_DISK] = 64 << 20;
		CHECK_EQ(keeper_limits_open_volume(&p.l, &e), 0);
		if (p.l.volume.ops == &storage_plain)
			CHECK(strncmp(notes_of(&p), "disk: ", 6) == 0);
		else
			CHECK_STR(notes_of(&p), "");
		place_done(&p);
	}
}

PLACE_TEST(without_a_limit_there_is_nothing_to_note)
{
	p->l.config.spec.limits[LIMIT_DISK] = 0;
	must_open(p, "plain");
	CHECK_STR(notes_of(p), "");
}

/* Its limit was refused or noted when it was made; what is in it counts more than a new default. */
PLACE_TEST(a_box_keeps_what_it_was_made_with)
{
	CHECK_EQ(mkdirat(p->l.box_fd, "upper", 0755), 0);
	must_open(p, "plain");
	CHECK(strncmp(notes_of(p), "disk: ", 6) == 0);
}

/* A default that the host has no room for is not promised: the disk is smaller, and it is said. */
PLACE_TEST(more_than_the_host_has)
{
	p->l.config.spec.limits[LIMIT_DISK] = 1ull << 50;
	CHECK_EQ(keeper_limits_open_volume(&p->l, NULL), 0);
	if (p->l.volume.ops == &storage_plain) {
		CHECK(strncmp(notes_of(p), "disk: ", 6) == 0);
	} else {
		CHECK(strncmp(notes_of(p), "host disk: ", 11) == 0);
		CHECK(p->l.volume.bytes > 0 && p->l.volume.bytes < 1ull << 50);
	}
}

PLACE_TEST(memory_takes_half_by_default)
{
	p->l.config.spec.storage = "tmpfs";
	p->l.config.spec.limits[LIMIT_MEM] = 64 << 20;
	if (keeper_limits_open_volume(&p->l, NULL) < 0) {
		place_done(p);
		SKIP("this host has no tmpfs for a box's writes");
	}
	CHECK_EQ(p->l.volume.bytes, 32 << 20);
	p->l.config.spec.limits_asked = 1u << LIMIT_DISK;
	CHECK_EQ(keeper_limits_open_volume(&p->l, NULL), 0);
	CHECK_EQ(p->l.volume.bytes, 10ull << 30);
	p->l.config.spec.limits_asked = 0;
	p->l.config.spec.limits[LIMIT_DISK] = 16 << 20;
	CHECK_EQ(keeper_limits_open_volume(&p->l, NULL), 0);
	CHECK_EQ(p->l.volume.bytes, 16 << 20);
	p->l.config.spec.limits[LIMIT_DISK] = p->l.config.spec.limits[LIMIT_MEM] = 0;
	CHECK_EQ(keeper_limits_open_volume(&p->l, NULL), 0);
	CHECK(p->l.volume.bytes > 16 << 20);
}

PLACE_TEST(host_directories_are_named)
{
	p->l.config.spec.storage = "plain";
	p->l.config.spec.workspace_dir = "/srv/work";
	p->l.config.spec.mounts[0] = (struct spec_mount){.src = "/srv/a", .dst = "/a"};
	p->l.config.spec.mounts[1] =
		(struct spec_mount){.src = "/srv/b", .dst = "/b", .read_only = true};
	p->l.config.spec.mounts[2] = (struct spec_mount){.src = "sub", .dst = "/c"};
	p->l.config.spec.mount_count = 3;
	must_open(p, "plain");
	CHECK(strstr(notes_of(p), "host directory '/srv/work'") != NULL);
	CHECK(strstr(notes_of(p), "host directory '/srv/a'") != NULL);
	CHECK(strstr(notes_of(p), "/srv/b") == NULL);
	CHECK(strstr(notes_of(p), "'sub'") == NULL);
}

PLACE_TEST(processors_are_whole_and_no_more_than_there_are)
{
	static const struct {
		uint64_t milli;
		unsigned cpus;
	} cases[] = {{1, 1}, {200, 1}, {1000, 1}};
	cpu_set_t set;
	unsigned all;

	CHECK_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
	all = (unsigned)CPU_COUNT(&set);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		p->l.config.spec.limits[LIMIT_CPUS] = cases[i].milli;
		CHECK_EQ(keeper_limits_cpus(&p->l), cases[i].cpus);
	}
	p->l.config.spec.limits[LIMIT_CPUS] = 8192 * 1000;
	CHECK_EQ(keeper_limits_cpus(&p->l), all);
	p->l.config.spec.limits[LIMIT_CPUS] = 0;
	CHECK_EQ(keeper_limits_cpus(&p->l), all);
	if (all > 1) {
		p->l.config.spec.limits[LIMIT_CPUS] = 1001;
		CHECK_EQ(keeper_limits_cpus(&p->l), 2);
	}
}

/* A filesystem is never larger than it was asked to be, and a little smaller. */
TEST(people_are_told_the_limit_they_asked_for)
{
	struct keeper_life l = {.config.spec.limits = {[LIMIT_DISK] = 200 << 20}};
	const struct {
		uint64_t made, told;
	} cases[] = {
		{0, 0},
		{(198 << 20) - 1234, 200 << 20},
		{200 << 20, 200 << 20},
		{(200 << 20) + 4096, (200 << 20) + 4096},
		{64 << 20, 64 << 20},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		CHECK_EQ(keeper_limits_disk(&l, &(struct volume){.bytes = cases[i].made}),
			 cases[i].told);
	l.config.spec.limits[LIMIT_DISK] = 0;
	CHECK_EQ(keeper_limits_disk(&l, &(struct volume){.bytes = 77 << 20}), 77 << 20);
}

TAP_MAIN
