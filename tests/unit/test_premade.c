/* Boxes that are made ahead: what may become what, whose name is whose, and records of pools. */
#include "store_home.h"
#include "tap.h"

#include "base/fd.h"
#include "base/pass.h"
#include "base/str.h"
#include "store/premade.h"
#include "store/record.h"
#include "store/warm.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>

static struct err e;

static struct spec plain(void)
{
	struct spec s = {.name = "b", .image = "base", .wall = "native", .net = "balanced"};

	s.layers[0] = "aa";
	s.layer_count = 1;
	s.limits[LIMIT_CPUS] = s.limits[LIMIT_PIDS] = 1000;
	s.limits[LIMIT_MEM] = 256 << 20;
	s.limits[LIMIT_DISK] = 1 << 30;
	return s;
}

TEST(what_comes_to_a_box_later_may_differ)
{
	struct spec made = plain(), asked = plain();

	CHECK(premade_fits(&made, &asked));
	asked.name = "other";
	asked.user = asked.cwd = asked.session = asked.on_start = "x";
	asked.env[0] = asked.labels[0] = "A=b";
	asked.env_count = asked.label_count = 1;
	asked.limits[LIMIT_MEM] = 7;
	asked.limits[LIMIT_CPUS] = 8;
	asked.limits[LIMIT_PIDS] = 9;
	asked.limits[LIMIT_TTL] = asked.limits[LIMIT_IDLE] = asked.limits[LIMIT_FILES] = 10;
	asked.limits_asked = ~(1u << LIMIT_DISK);
	asked.net = "open";
	asked.persistence = PERSIST_BOX;
	asked.restart = RESTART_ALWAYS;
	asked.expiry = EXPIRE_PAUSE;
	asked.timeout_ms = asked.created_ms = 5;
	CHECK(premade_fits(&made, &asked));
}

TEST(what_is_in_it_already_may_not)
{
	static const struct spec_mount mount = {.src = "/a", .dst = "/b"};
	const struct spec base = plain();
	struct spec s[24];
	size_t n = 0;

	for (size_t i = 0; i < sizeof(s) / sizeof(s[0]); i++)
		s[i] = base;
	s[n++].image = "other";
	s[n++].layers[0] = "bb";
	s[n++].layer_count = 0;
	s[n++].wall = "gvisor";
	s[n++].owner = "0123abcd";
	s[n++].workspace = "w";
	s[n++].workspace_dir = "/w";
	s[n].mounts[0] = mount;
	s[n++].mount_count = 1;
	s[n++].from = "snap";
	s[n++].renew = true;
	s[n++].workspace_copy = true;
	s[n++].one_shot = true;
	s[n++].strict = true;
	s[n++].ptrace = true;
	s[n++].ctl = "info";
	s[n++].storage = "tmpfs";
	s[n++].net = NULL;
	s[n++].net = "closed";
	s[n++].limits[LIMIT_DISK] = 2u << 30;
	s[n++].limits_asked = 1u << LIMIT_DISK;
	s[n++].limits[LIMIT_IO] = 1;
	s[n++].limits[LIMIT_MEM] = 0;
	s[n++].limits[LIMIT_CPUS] = 0;
	s[n++].limits[LIMIT_PIDS] = 0;
	CHECK_EQ(n, sizeof(s) / sizeof(s[0]));
	for (size_t i = 0; i < n; i++)
		CHECK(!premade_fits(&base, &s[i]) && !premade_fits(&s[i], &base));
}

HOME_TEST(its_groups_have_a_name_that_no_box_has)
{
	char dir[32], name[PREMADE_NAME_SIZE];
	int fd = -1;

	CHECK_EQ(state_make(s, &e), 0);
	CHECK_EQ(state_new_dir(s->boxes_fd, dir, &fd), 0);
	premade_name(dir, name);
	CHECK(premade_is_name(name) && !str_is_name(name, BOX_NAME_MAX));
	CHECK(premade_is_there(s, name));
	CHECK_EQ(renameat(s->boxes_fd, dir, s->boxes_fd, "box"), 0);
	CHECK(!premade_is_there(s, name));
	premade_name("box", name);
	CHECK_STR(name, "");
	close(fd);
}

HOME_TEST(a_record_in_its_directory_is_one_of_a_box)
{
	struct spec one = plain(), two = plain();
	struct record record;
	char dir[32], second[32];
	int fd = -1, other = -1;

	one.layers[0] = two.layers[0] =
		"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
	two.env[0] = "A=b";
	two.env_count = 1;
	CHECK_EQ(state_make(s, &e), 0);
	CHECK_EQ(state_new_dir(s->boxes_fd, dir, &fd), 0);
	CHECK_EQ(record_prepare(s, fd, &e), 0);
	if (record_create_in(s, &one, dir, fd, &e) < 0)
		FAIL(e.msg);
	CHECK_EQ(record_sync_name(s, &one, &e), 0);
	/* One whose name is taken keeps its own, and takes another box's record then. */
	CHECK_EQ(state_new_dir(s->boxes_fd, second, &other), 0);
	CHECK_EQ(record_prepare(s, other, &e), 0);
	CHECK_EQ(record_create_in(s, &two, second, other, &e), -EEXIST);
	CHECK_EQ(faccessat(s->boxes_fd, second, F_OK, 0), 0);
	one.name = "c";
	CHECK_EQ(record_create_in(s, &one, second, other, &e), 0);
	CHECK_EQ(record_load(s, "c", &record, &e), 0);
	CHECK_STR(record.spec.name, "c");
	CHECK_EQ(record.spec.env_count, 0);
	CHECK_EQ(record.state, BOX_CREATED);
	record_done(&record);
	close(fd);
	close(other);
}

static int set(struct state *s, const char *owner, const char *image, uint64_t size)
{
	struct warm_pool p = {.size = size};

	str_copy(p.owner, sizeof(p.owner), owner);
	str_copy(p.image, sizeof(p.image), image);
	return warm_pool_set(s, &p, &e);
}

HOME_TEST(a_pool_is_of_one_owner_and_image)
{
	struct warm_pool *list = NULL;
	size_t count = 0;

	CHECK_EQ(warm_pool_list(s, &list, &count, &e), 0);
	CHECK_EQ(count, 0);
	free(list);
	CHECK_EQ(set(s, "", "a", 1), 0);
	CHECK_EQ(set(s, "", "a", 2), 0);
	CHECK_EQ(set(s, "0123abcd", "a", 3), 0);
	CHECK_EQ(set(s, "", "b", 0), -EINVAL);
	CHECK_EQ(set(s, "", "b", WARM_SIZE_MAX + 1), -EINVAL);
	CHECK_EQ(warm_pool_list(s, &list, &count, &e), 0);
	CHECK_EQ(count, 2);
	for (size_t i = 0; i < count; i++)
		CHECK_EQ(list[i].size, list[i].owner[0] ? 3 : 2);
	CHECK(!list[0].is_filled);
	free(list);
	CHECK_EQ(warm_pool_remove(s, "0123abcd", "b", &e), -ENOENT);
	CHECK_EQ(warm_pool_remove(s, "", "a", &e), 0);
	CHECK_EQ(warm_pool_remove(s, "", "a", &e), -ENOENT);
}

HOME_TEST(there_are_so_many_pools)
{
	char image[16];

	for (unsigned i = 0; i < WARM_POOLS_MAX; i++) {
		snprintf(image, sizeof(image), "i%u", i);
		CHECK_EQ(set(s, "", image, 1), 0);
	}
	CHECK_EQ(set(s, "", "more", 1), -E2BIG);
	CHECK_EQ(set(s, "", "i1", 5), 0);
}

HOME_TEST(a_key_leaves_room_for_others)
{
	char image[16];

	for (unsigned i = 0; i < WARM_KEY_POOLS_MAX; i++) {
		snprintf(image, sizeof(image), "i%u", i);
		CHECK_EQ(set(s, "0123abcd", image, 1), 0);
	}
	CHECK_EQ(set(s, "0123abcd", "more", 1), -E2BIG);
	CHECK_EQ(set(s, "0123abcd", "i1", WARM_KEY_SIZE_MAX - WARM_KEY_POOLS_MAX + 1), 0);
	CHECK_EQ(set(s, "0123abcd", "i2", 2), -E2BIG);
	CHECK_EQ(set(s, "abcd0123", "i2", 2), 0);
	CHECK_EQ(set(s, "", "more", WARM_SIZE_MAX), 0);
}

HOME_TEST(a_changed_byte_makes_a_record_none)
{
	struct warm_pool *list = NULL;
	autofree char *text = NULL;
	size_t count = 0, len = 0;
	int dir;

	CHECK_EQ(set(s, "0123abcd", "a/b:c", 3), 0);
	CHECK_EQ(warm_pool_list(s, &list, &count, &e), 0);
	CHECK_EQ(count, 1);
	dir = warm_dir(s, false);
	CHECK_EQ(fd_read_file(dir, list[0].id, 4096, &text, &len), 0);
	for (size_t i = 0; i < len; i++) {
		struct warm_pool *now = NULL;

		text[i] ^= 1;
		CHECK_EQ(fd_write_file(dir, list[0].id, text, len, 0600, false), 0);
		CHECK_EQ(warm_pool_list(s, &now, &count, &e), 0);
		CHECK_EQ(count, 0);
		free(now);
		text[i] ^= 1;
	}
	free(list);
	close(dir);
}

HOME_TEST(one_fills_and_says_what_there_is)
{
	struct warm_pool *list = NULL;
	size_t count = 0;
	int one = -1, two = -1;

	CHECK_EQ(warm_filler_lock(s, &one), -ENOENT);
	CHECK_EQ(set(s, "", "a", 3), 0);
	CHECK_EQ(warm_filler_lock(s, &one), 0);
	CHECK_EQ(warm_filler_lock(s, &two), -EBUSY);
	CHECK_EQ(warm_pool_list(s, &list, &count, &e), 0);
	list[0].ready = 2;
	str_copy(list[0].why, sizeof(list[0].why), "a reason\nof two lines");
	CHECK_EQ(warm_state_write(s, list, count), 0);
	free(list);
	CHECK_EQ(warm_pool_list(s, &list, &count, &e), 0);
	CHECK(list[0].is_filled && list[0].ready == 2);
	CHECK_STR(list[0].why, "a reason\nof two lines");
	free(list);
	close(one);
	CHECK_EQ(warm_pool_list(s, &list, &count, &e), 0);
	CHECK(!list[0].is_filled && list[0].ready == 0);
	free(list);
}

TEST(a_keeper_hears_what_comes_first)
{
	int pair[2], ended[2], fd = -1, given = open("/dev/null", O_RDONLY | O_CLOEXEC);

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ended), 0);
	CHECK_EQ(pass_send(pair[0], &given, 1), 0);
	CHECK_EQ(premade_await(pair[1], ended[1], &fd), 0);
	CHECK(fd >= 0);
	close(fd);
	CHECK_EQ(write(ended[0], "x", 1), 1); /* as a process that has ended */
	CHECK_EQ(premade_await(pair[1], ended[1], &fd), -ECHILD);
	CHECK_EQ(write(pair[0], "x", 1), 1); /* nothing comes with it */
	CHECK_EQ(premade_await(pair[1], ended[1], &fd), -ECANCELED);
	close(pair[0]);
	CHECK_EQ(premade_await(pair[1], ended[1], &fd), -ECANCELED);
}
