/* Passes over warm pools: what ends a box that waits, and what ends a pass. */
#include "base/clock.h"
#include "base/str.h"
#include "core/warm.h"
#include "store_home.h"

#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static struct err e;

/* No program is found but what a test gives. */
static struct cove *home_new(void)
{
	struct cove *cove = NULL;

	CHECK(cove_new(&cove,
		       &(struct cove_options){.size = sizeof(struct cove_options),
					      .home = home_make()},
		       NULL) == 0);
	CHECK(state_make(&cove->state, &e) == 0);
	CHECK(core_warm_new(&cove->warm) == 0);
	str_copy(cove->keeper_path, sizeof(cove->keeper_path), "/nonexistent");
	str_copy(cove->init_path, sizeof(cove->init_path), "/nonexistent");
	str_copy(cove->door_path, sizeof(cove->door_path), "/nonexistent");
	return cove;
}

static void end(struct cove *cove)
{
	core_warm_free(cove->warm, cove);
	cove->warm = NULL;
	cove_free(cove);
}

/* One that waits in the one pool; the other end of its socket, which is its keeper's. */
static int add_waiting(struct cove *cove)
{
	struct core_premade *p = calloc(1, sizeof(*p));
	struct warm_pool *pools = NULL;
	size_t count;
	int pair[2];

	CHECK(p && (p->spec = calloc(1, sizeof(*p->spec))) != NULL);
	CHECK(core_spec_init(p->spec, &(struct cove_box_options){.size = sizeof(*p->options)}, NULL,
			     NULL, &e) == 0);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	CHECK(warm_pool_list(&cove->state, &pools, &count, &e) == 0 && count == 1);
	str_copy(p->pool, sizeof(p->pool), pools[0].id);
	free(pools);
	str_copy(p->dir, sizeof(p->dir), "none");
	p->dir_fd = -1;
	p->sock = pair[0];
	p->made_ms = clock_mono_ms();
	core_warm_give_back(cove, p);
	return pair[1];
}

/* A file that cannot be read just now, which is no damage. */
static void make_unreadable(struct cove *cove, const char *path)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(unlinkat(cove->state.home_fd, path, 0) == 0);
	snprintf(at.sun_path, sizeof(at.sun_path), "%s/%s", home_path, path);
	CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0);
	close(fd);
}

TEST(only_a_definite_answer_ends_a_box_that_waits)
{
	struct key key = {.name = "k", .scopes = KEY_SCOPES_DEFAULT};
	struct warm_pool pool = {.image = "base", .size = 1};
	char token[KEY_TOKEN_SIZE], path[32];
	struct core_warm_passed passed;
	struct cove *cove = home_new();
	int keeper;

	CHECK(key_make(&cove->state, &key, token, &e) == 0);
	str_copy(pool.owner, sizeof(pool.owner), key.id);
	CHECK(warm_pool_set(&cove->state, &pool, &e) == 0);
	keeper = add_waiting(cove);
	snprintf(path, sizeof(path), "keys/%s", key.id);
	make_unreadable(cove, path);
	CHECK(core_warm_pass(cove, &passed, &e) == 0);
	CHECK_EQ(passed.failed, 1);
	CHECK_EQ(passed.dropped, 0);
	CHECK(unlinkat(cove->state.home_fd, path, 0) == 0);
	CHECK(core_warm_pass(cove, &passed, &e) == 0);
	CHECK_EQ(passed.dropped, 1);
	close(keeper);
	end(cove);
}

TEST(a_state_that_could_not_be_written_is_written_by_the_next_pass)
{
	struct warm_pool pool = {.image = "host", .size = 1};
	struct core_warm_passed passed;
	struct cove *cove = home_new();

	CHECK(warm_pool_set(&cove->state, &pool, &e) == 0);
	CHECK(mkdirat(cove->state.home_fd, "warm/state", 0700) == 0);
	CHECK(core_warm_pass(cove, &passed, &e) == 0);
	CHECK(unlinkat(cove->state.home_fd, "warm/state", AT_REMOVEDIR) == 0);
	CHECK(core_warm_pass(cove, &passed, &e) == 0);
	CHECK(faccessat(cove->state.home_fd, "warm/state", F_OK, 0) == 0);
	end(cove);
}

struct passing {
	struct cove *cove;
	int begun_fd;
	struct core_warm_passed passed;
	int r;
};

static void *pass(void *arg)
{
	struct passing *p = arg;
	struct err why;

	p->r = core_warm_pass(p->cove, &p->passed, &why);
	CHECK(write(p->begun_fd, "ended", 5) == 5);
	return NULL;
}

/* A program in the place of the keeper, which says that it has begun and never that its box is
 * ready. It ends with its socket. */
static int write_keeper(struct cove *cove)
{
	static const char text[] =
		"#!/bin/sh\nprintf begun >\"$0.begun\"\nexec cat <&4 >/dev/null\n";
	int fd;

	snprintf(cove->keeper_path, sizeof(cove->keeper_path), "%s/keeper", home_path);
	CHECK(fd_write_file(cove->state.home_fd, "keeper", text, sizeof(text) - 1, 0700, false) ==
	      0);
	CHECK(mkfifoat(cove->state.home_fd, "keeper.begun", 0600) == 0);
	/* Both ends, so that no open waits. */
	fd = openat(cove->state.home_fd, "keeper.begun", O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0);
	return fd;
}

TEST(a_pass_that_is_stopped_waits_for_no_keeper)
{
	struct warm_pool pool = {.image = "host", .size = 1};
	struct cove *cove = home_new();
	struct passing p = {.cove = cove, .begun_fd = write_keeper(cove)};
	char word[5];
	pthread_t thread;

	CHECK(warm_pool_set(&cove->state, &pool, &e) == 0);
	CHECK(pthread_create(&thread, NULL, pass, &p) == 0);
	CHECK(read(p.begun_fd, word, sizeof(word)) == sizeof(word));
	core_warm_stop(cove->warm);
	CHECK(pthread_join(thread, NULL) == 0);
	if (memcmp(word, "ended", sizeof(word)) == 0)
		SKIP(p.passed.why);
	CHECK_EQ(p.r, 0);
	CHECK_EQ(p.passed.made, 0);
	CHECK_EQ(p.passed.failed, 0);
	close(p.begun_fd);
	end(cove);
}
