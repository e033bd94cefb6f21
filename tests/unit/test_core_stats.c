/* Questions to a running box's keeper: what it uses, pausing it, and what list and inspect make of
 * the answers. The keeper is a process of ours that holds the box's lock and its socket. */
#include "core_peer.h"
#include "tap.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "core/view.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

/* How the keeper behaves; its answers are otherwise those below. */
struct act {
	const char *notes;
	bool odd_stats;	 /* answers STATS with another frame */
	bool half_stats; /* hangs up in the middle of the answer */
	bool no_pause;	 /* refuses to pause */
	bool old;	 /* does not know STATS, as an older one */
};

static char home[64];
static pid_t keeper;

static void answer_status(struct peer *p, uint32_t id, const struct act *act, bool paused)
{
	struct wire_status m = {.started_ms = 1,
				.init_pid = 5,
				.notes = act->notes,
				.ids = "range",
				.paused = paused,
				.storage = "loop",
				.walls = "seccomp\nlandlock: with \"quotes\"\n"};

	CHECK_EQ(wire_status_encode(&p->out, id, 0, &m), 0);
}

static void answer_stats(struct peer *p, uint32_t id, const struct act *act, bool paused)
{
	struct wire_stats m = {.uptime_ms = 1234,
			       .paused = paused,
			       .cpu_us = 5000000,
			       .mem_bytes = 100 << 20,
			       .mem_limit_bytes = 512 << 20,
			       .pids = 3,
			       .pids_limit = 64,
			       .disk_bytes = 7,
			       .disk_limit_bytes = 300,
			       .disk_own_limit_bytes = 100,
			       .io_read_bytes = WIRE_UNKNOWN,
			       .io_write_bytes = 9,
			       .disk_files = 2,
			       .execs_running = 1};
	size_t before = buf_len(&p->out);

	if (act->odd_stats || act->old) {
		if (act->old)
			peer_error(p, id, EPROTO, "unknown request");
		else
			peer_send(p, WIRE_OK, 0, id);
		return;
	}
	CHECK_EQ(wire_stats_encode(&p->out, id, 0, &m), 0);
	if (act->half_stats) {
		p->out.len = before + (buf_len(&p->out) - before) / 2;
		peer_flush(p);
		_exit(0);
	}
}

static void answer_execs(struct peer *p, uint32_t id)
{
	struct exec_record m = {.state = EXEC_DONE,
				.command = "make",
				.cause = "oom",
				.signal = 9,
				.oom_killed = 1,
				.cpu_us = 1500,
				.mem_peak_bytes = 4096,
				.io_read_bytes = 1,
				.io_write_bytes = 2};

	for (m.exec_id = 1; m.exec_id <= 20; m.exec_id++)
		CHECK_EQ(wire_info_encode(&p->out, id, 0, &m), 0);
	peer_send(p, WIRE_OK, 0, id);
}

static int live_fd = -1; /* the box's directory, in the keeper */

static void answer_pause(struct peer *p, const struct wire_frame *f, const struct act *act,
			 bool *paused)
{
	struct wire_pause m;

	CHECK_EQ(wire_pause_decode(f, &m), 0);
	CHECK_STR(m.by, m.on ? "cove pause" : "cove resume");
	if (act->no_pause) {
		peer_error(p, f->id, EOPNOTSUPP, "this host has no cgroup\n[cove] forged");
		return;
	}
	*paused = m.on;
	CHECK_EQ(record_set_paused(live_fd, m.on, NULL, NULL), 0);
	peer_send(p, WIRE_OK, 0, f->id);
}

/* Answers on one connection until it ends. */
static void serve(int fd, const struct act *act, bool *paused)
{
	struct wire_hello hello = {.lowest = WIRE_VERSION_MIN, .name = "box"};
	struct peer p = {.fd = fd};
	struct wire_frame f;

	wire_decoder_init(&p.decoder);
	buf_init(&p.out, WIRE_OUT_MAX);
	CHECK_EQ(wire_hello_encode(&p.out, 0, 0, &hello), 0);
	for (;;) {
		size_t room = 0;
		uint8_t *space;
		ssize_t n;

		while (wire_decoder_next(&p.decoder, &f) > 0) {
			if (f.type == WIRE_STATUS)
				answer_status(&p, f.id, act, *paused);
			else if (f.type == WIRE_STATS)
				answer_stats(&p, f.id, act, *paused);
			else if (f.type == WIRE_PAUSE)
				answer_pause(&p, &f, act, paused);
			else if (f.type == WIRE_EXECS)
				answer_execs(&p, f.id);
		}
		peer_flush(&p);
		space = wire_decoder_space(&p.decoder, &room);
		n = recv(fd, space, room, 0);
		if (n <= 0)
			break;
		wire_decoder_fill(&p.decoder, (size_t)n);
	}
	wire_decoder_done(&p.decoder);
	buf_done(&p.out);
}

static void keeper_main(int sock, int box_fd, int ready_fd, const struct act *act)
{
	bool paused = false;
	int lock_fd, fd;

	CHECK_EQ(record_lock(box_fd, &lock_fd, NULL), 0);
	CHECK_EQ(record_write_live(lock_fd, false, NULL), 0);
	live_fd = lock_fd;
	CHECK_EQ(write(ready_fd, "x", 1), 1);
	while ((fd = accept(sock, NULL, NULL)) >= 0) {
		serve(fd, act, &paused);
		close(fd);
	}
	_exit(1);
}

static void listen_at(struct cove *cove, const char *name, int *ret_sock)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};

	CHECK_EQ(mkdirat(cove->state.run_fd, name, 0700), 0);
	snprintf(addr.sun_path, sizeof(addr.sun_path), "/proc/self/fd/%d/%s/keeper.sock",
		 cove->state.run_fd, name);
	*ret_sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK_EQ(bind(*ret_sock, (struct sockaddr *)&addr, sizeof(addr)), 0);
	CHECK_EQ(listen(*ret_sock, 8), 0);
}

/* A box named "box" with a keeper that acts like this. */
static struct cove *start(const struct act *act)
{
	struct spec spec = {.name = "box",
			    .image = "host",
			    .wall = "native",
			    .created_ms = clock_wall_ms(),
			    .limits = {[LIMIT_MEM] = 512 << 20,
				       [LIMIT_CPUS] = 500,
				       [LIMIT_PIDS] = 64,
				       [LIMIT_DISK] = 400 << 20,
				       [LIMIT_IO] = 1 << 20,
				       [LIMIT_NET_CONNS] = 5},
			    .limits_asked = 1u << LIMIT_MEM};
	struct cove *cove;
	int fd, sock, ready[2];
	char byte;

	snprintf(home, sizeof(home), "/tmp/cove-test-XXXXXX");
	CHECK(mkdtemp(home));
	CHECK_EQ(cove_new(&cove,
			  &(struct cove_options){.size = sizeof(struct cove_options), .home = home},
			  NULL),
		 0);
	CHECK_EQ(state_make(&cove->state, NULL), 0);
	CHECK_EQ(record_create(&cove->state, &spec, &fd, NULL), 0);
	listen_at(cove, "box", &sock);
	CHECK_EQ(pipe(ready), 0);
	keeper = fork();
	if (keeper == 0)
		keeper_main(sock, fd, ready[1], act);
	close(ready[1]);
	CHECK_EQ(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(sock);
	close(fd);
	return cove;
}

static void end_keeper(void)
{
	if (keeper == 0)
		return;
	kill(keeper, SIGKILL);
	CHECK_EQ(waitpid(keeper, NULL, 0), keeper);
	keeper = 0;
}

static void finish(struct cove *cove)
{
	pid_t pid;

	end_keeper();
	cove_free(cove);
	pid = fork();
	if (pid == 0) {
		execl("/bin/rm", "rm", "-rf", home, NULL);
		_exit(127);
	}
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

TEST(numbers_come_as_they_are)
{
	struct cove *cove = start(&(struct act){0});
	struct cove_stats s;
	struct cove_error err;

	CHECK_EQ(cove_stats(cove, "box", &s, &err), 0);
	CHECK_EQ(s.uptime_ms, 1234);
	CHECK_EQ(s.mem_limit_bytes, 512 << 20);
	CHECK(s.pids == 3 && s.pids_limit == 64 && s.disk_files == 2 && !s.paused);
	CHECK_EQ(cove_stats(cove, "nope", &s, &err), -ENOENT);
	CHECK_EQ(err.kind, COVE_NOT_FOUND);
	CHECK(cove_stats(cove, "../box", &s, &err) < 0);
	finish(cove);
}

TEST(each_of_several_boxes_has_an_end_of_its_own)
{
	static const char *const names[] = {"nope", "box", "", "../box", "box"};
	struct cove *cove = start(&(struct act){0});
	struct cove_error errs[5], err;
	struct cove_stats s[5];

	CHECK_EQ(cove_stats_of(cove, names, 5, s, errs, &err), 0);
	for (int i = 0; i < 5; i++)
		CHECK_EQ(errs[i].kind, strcmp(names[i], "box") ? COVE_NOT_FOUND : COVE_OK);
	CHECK(s[1].uptime_ms == 1234 && s[4].uptime_ms == 1234);
	CHECK_EQ(cove_stats_of(cove, names, 0, s, errs, &err), 0);
	finish(cove);
}

TEST(a_stopped_box_has_no_numbers)
{
	struct cove *cove = start(&(struct act){0});
	struct cove_stats s;
	struct cove_error err;

	end_keeper();
	CHECK(cove_stats(cove, "box", &s, &err) < 0);
	CHECK_EQ(err.kind, COVE_CONFLICT);
	CHECK(strstr(err.message, "not running"));
	CHECK(cove_pause(cove, "box", &err) < 0);
	CHECK_EQ(err.kind, COVE_CONFLICT);
	finish(cove);
}

TEST(a_keeper_that_breaks_the_rules_is_an_error)
{
	static const struct {
		struct act act;
		enum cove_error_kind kind;
	} cases[] = {{{.odd_stats = true}, COVE_PROTOCOL},
		     {{.half_stats = true}, COVE_INTERRUPTED},
		     {{.old = true}, COVE_DENIED}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct cove *cove = start(&cases[i].act);
		struct cove_stats s;
		struct cove_error err;

		CHECK(cove_stats(cove, "box", &s, &err) < 0);
		CHECK_EQ(err.kind, cases[i].kind);
		finish(cove);
	}
}

static const char *state_of(struct cove *cove)
{
	static char state[16];
	struct cove_box_info *list;

	CHECK_EQ(cove_list(cove, &list, NULL), 1);
	snprintf(state, sizeof(state), "%s", list[0].state);
	free(list);
	return state;
}

TEST(a_paused_box_is_listed_as_paused)
{
	struct cove *cove = start(&(struct act){0});
	struct cove_error err;

	CHECK_STR(state_of(cove), "running");
	CHECK_EQ(cove_pause(cove, "box", &err), 0);
	CHECK_EQ(cove_pause(cove, "box", &err), 0);
	CHECK_STR(state_of(cove), "paused");
	CHECK_EQ(cove_resume(cove, "box", &err), 0);
	CHECK_STR(state_of(cove), "running");
	finish(cove);
}

static uint64_t ttl_of(struct cove *cove)
{
	struct record record;
	uint64_t ms;

	CHECK_EQ(record_load(&cove->state, "box", &record, NULL), 0);
	ms = record.spec.limits[LIMIT_TTL];
	record_done(&record);
	return ms;
}

/* One that does not say that it can change its box's time is not asked to. */
TEST(times_and_an_older_keeper)
{
	struct cove *cove = start(&(struct act){0});
	struct cove_error err;

	CHECK(cove_set_ttl(cove, "box", 60000, 0, &err) < 0);
	CHECK_EQ(err.kind, COVE_UNSUPPORTED);
	CHECK(strstr(err.message, "cove stop box; cove start box"));
	CHECK_EQ(ttl_of(cove), 0);
	CHECK_EQ(cove_set_ttl(cove, "box", 0, 0, &err), -EINVAL);
	CHECK_EQ(cove_set_ttl(cove, "box", 1, 0, &err), -EINVAL);
	CHECK_EQ(cove_set_ttl(cove, "box", 0, UINT64_MAX - 1, &err), -EINVAL);
	CHECK_EQ(cove_set_ttl(cove, "nope", 60000, 0, &err), -ENOENT);
	CHECK_EQ(cove_set_ttl(cove, "../box", 60000, 0, &err), -ENOENT);
	/* Of one that does not run the record is written anew. */
	end_keeper();
	CHECK_EQ(cove_set_ttl(cove, "box", 60000, COVE_UNLIMITED, &err), 0);
	CHECK_EQ(ttl_of(cove), 60000);
	CHECK_EQ(cove_set_ttl(cove, "box", COVE_UNLIMITED, 0, &err), 0);
	CHECK_EQ(ttl_of(cove), 0);
	finish(cove);
}

TEST(what_cannot_be_paused_says_why)
{
	struct cove *cove = start(&(struct act){.no_pause = true});
	struct cove_error err;

	CHECK_EQ(cove_pause(cove, "box", &err), -EOPNOTSUPP);
	CHECK(strstr(err.message, "no cgroup") && !strchr(err.message, '\n'));
	CHECK_STR(state_of(cove), "running");
	finish(cove);
}

/* The object of one limit, as text. */
static bool limit_is(const char *json, const char *key, const char *object)
{
	char text[200];

	snprintf(text, sizeof(text), "\"%s\":%s", key, object);
	return strstr(json, text) != NULL;
}

TEST(inspect_says_what_holds)
{
	struct cove *cove =
		start(&(struct act){.notes = "pids: no \"delegation\"\nsomething else\n"});
	autofree char *json = NULL;

	CHECK_EQ(cove_inspect(cove, "box", &json, NULL), 0);
	CHECK(limit_is(json, "mem_bytes",
		       "{\"value\":536870912,\"asked\":true,\"enforced\":true}"));
	/* The keeper counts nothing against it, whatever its notes do not say. */
	CHECK(limit_is(json, "cpu_milli", "{\"value\":500,\"asked\":false,\"enforced\":false}"));
	CHECK(limit_is(json, "pids", "{\"value\":64,\"asked\":false,\"enforced\":false}"));
	CHECK(limit_is(json, "io_bytes", "{\"value\":1048576,\"asked\":false,\"enforced\":true}"));
	/* Its own disk, as the keeper made it, whatever the record wanted. */
	CHECK(limit_is(json, "disk_bytes",
		       "{\"value\":100,\"asked\":false,\"wanted\":419430400,\"each\":[\"box\"],"
		       "\"enforced\":true}"));
	CHECK(strstr(json, "\"disk_limit_bytes\":300,\"disk_own_limit_bytes\":100,"));
	CHECK(strstr(json, "\"io_read_bytes\":null,\"io_write_bytes\":9,"));
	CHECK(limit_is(json, "net_conns", "{\"value\":5,\"asked\":false,\"enforced\":true}"));
	CHECK(strstr(json,
		     "\"not_enforced\":[\"pids: no \\\"delegation\\\"\",\"something else\"]"));
	CHECK(strstr(json, "\"network\":{\"policy\":\"closed\",\"mode\":\"none\",\"door\":null}"));
	CHECK(strstr(json, "\"storage\":\"loop\""));
	CHECK(strstr(json, "\"walls\":[\"seccomp\",\"landlock: with \\\"quotes\\\"\"]"));
	CHECK(strstr(json, "\"usage\":{\"uptime_ms\":1234,"));
	/* The last sixteen of twenty, with what they used. */
	CHECK(!strstr(json, "\"exec_id\":4,") && strstr(json, "\"exec_id\":5,"));
	CHECK(strstr(json, "\"oom_killed\":true") && strstr(json, "\"cpu_ms\":2,"));
	finish(cove);
}

TEST(inspect_without_an_answer_knows_nothing)
{
	struct cove *cove = start(&(struct act){.half_stats = true});
	autofree char *json = NULL;

	CHECK_EQ(cove_inspect(cove, "box", &json, NULL), 0);
	CHECK(strstr(json, "\"problem\":"));
	CHECK(limit_is(json, "mem_bytes",
		       "{\"value\":536870912,\"asked\":true,\"enforced\":null}"));
	CHECK(strstr(json, "\"walls\":null") && !strstr(json, "\"usage\""));
	CHECK(strstr(json, "\"not_enforced\":null"));
	finish(cove);
}

TAP_MAIN
