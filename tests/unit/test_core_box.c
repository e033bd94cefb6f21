/* What libcove checks and makes before any keeper is started, in a state directory of its own. */
#include "base/clock.h"
#include "base/fd.h"
#include "core/core.h"
#include "core_peer.h"
#include "store/net.h"
#include "tap.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static char home[64];

static struct cove *open_home(void)
{
	struct cove_error err;
	struct cove *cove;

	snprintf(home, sizeof(home), "/tmp/cove-test-XXXXXX");
	CHECK(mkdtemp(home));
	CHECK_EQ(cove_new(&cove,
			  &(struct cove_options){.size = sizeof(struct cove_options), .home = home},
			  &err),
		 0);
	CHECK_EQ(state_make(&cove->state, NULL), 0);
	return cove;
}

static void close_home(struct cove *cove)
{
	pid_t pid;

	cove_free(cove);
	pid = fork();
	if (pid == 0) {
		execl("/bin/rm", "rm", "-rf", home, NULL);
		_exit(127);
	}
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

static int count_boxes(struct cove *cove)
{
	struct cove_box_info *list;
	int n = cove_list(cove, &list, NULL);

	free(list);
	return n;
}

#define BOX(...)                                                     \
	&(struct cove_box_options)                                   \
	{                                                            \
		.size = sizeof(struct cove_box_options), __VA_ARGS__ \
	}

TEST(a_missing_image_makes_nothing)
{
	struct cove *cove = open_home();
	struct cove_error err;
	struct cove_box *box;

	setenv("COVE_LIBEXEC", "/bin", 1);
	CHECK(cove_create(cove, BOX(.name = "a"), &box, &err) < 0);
	CHECK(err.kind == COVE_UNSUPPORTED); /* /bin has no cove-keeper */
	CHECK(strstr(err.message, "cove-keeper"));
	CHECK_EQ(count_boxes(cove), 0);
	close_home(cove);
}

TEST(bad_options_make_nothing)
{
	static const char *const bad_mount[] = {"nowhere", NULL}, *const bad_env[] = {"=x", NULL};
	struct cove *cove = open_home();
	struct cove_error err;
	struct cove_box *box;

	CHECK(cove_create(cove, BOX(.name = "No Good"), &box, &err) < 0);
	CHECK_EQ(err.kind, COVE_INVALID);
	CHECK(cove_create(cove, BOX(.persistence = "forever"), &box, &err) < 0);
	CHECK_EQ(err.kind, COVE_INVALID);
	CHECK(cove_create(cove, BOX(.mounts = bad_mount), &box, &err) < 0);
	CHECK_EQ(err.kind, COVE_INVALID);
	CHECK(cove_create(cove, BOX(.env = bad_env), &box, &err) < 0);
	CHECK_EQ(err.kind, COVE_INVALID);
	CHECK(cove_create(cove, BOX(.workspace = "/nowhere/at/all"), &box, &err) < 0);
	CHECK_EQ(err.kind, COVE_NOT_FOUND);
	CHECK(cove_create(cove, &(struct cove_box_options){0}, &box, &err) < 0);
	CHECK_EQ(err.kind, COVE_INVALID);
	CHECK_EQ(count_boxes(cove), 0);
	close_home(cove);
}

static struct spec spec_of(const struct cove_box_options *o)
{
	struct core_spec s;
	struct err e = {0};

	CHECK_EQ(core_spec_init(&s, o, "box", NULL, &e), 0);
	core_spec_done(&s);
	return s.spec;
}

TEST(limits_have_defaults)
{
	struct spec s = spec_of(BOX(0));

	CHECK(s.limits[LIMIT_MEM] > 0 && s.limits[LIMIT_MEM] <= 2ull << 30);
	CHECK(s.limits[LIMIT_CPUS] == 2000 || s.limits[LIMIT_CPUS] == 1000);
	CHECK_EQ(s.limits[LIMIT_PIDS], 1024);
	CHECK_EQ(s.limits[LIMIT_DISK], 10ull << 30);
	CHECK_EQ(s.limits[LIMIT_FILES], 65536);
	CHECK(!s.limits[LIMIT_IO] && !s.limits[LIMIT_TTL] && !s.limits[LIMIT_IDLE]);
	CHECK(!s.limits[LIMIT_NET_BYTES] && !s.limits[LIMIT_NET_CONNS]);
	CHECK_EQ(s.limits_asked, 0);
	CHECK(!s.best_effort && !s.strict && !s.storage && s.expiry == EXPIRE_STOP);
}

TEST(limits_as_asked)
{
	struct spec s = spec_of(BOX(.mem_bytes = 64 << 20, .cpu_milli = 500, .pids = COVE_UNLIMITED,
				    .idle_ms = 1000, .expire = "remove", .storage = "tmpfs",
				    .best_effort = true, .strict = true));

	CHECK_EQ(s.limits[LIMIT_MEM], 64 << 20);
	CHECK_EQ(s.limits[LIMIT_CPUS], 500);
	CHECK_EQ(s.limits[LIMIT_PIDS], 0);
	CHECK_EQ(s.limits[LIMIT_DISK], 10ull << 30);
	CHECK_EQ(s.limits_asked,
		 1u << LIMIT_MEM | 1u << LIMIT_CPUS | 1u << LIMIT_PIDS | 1u << LIMIT_IDLE);
	CHECK(s.best_effort && s.strict && s.expiry == EXPIRE_REMOVE);
	CHECK_STR(s.storage, "tmpfs");
}

/* A program built before there were limits has a smaller struct. */
TEST(an_older_caller_gets_the_defaults)
{
	struct cove_box_options mine = {.mem_bytes = 1, .pids = 1, .strict = true}, got;

	mine.size = offsetof(struct cove_box_options, mem_bytes);
	CHECK_EQ(core_copy_sized(&got, sizeof(got), &mine, NULL), 0);
	CHECK(!got.mem_bytes && !got.pids && !got.strict);
}

TEST(bad_limits_make_nothing)
{
	const struct {
		struct cove_box_options o;
		const char *said;
	} bad[] = {
		{{.mem_bytes = 1}, "--mem"},
		{{.cpu_milli = 1}, "--cpus"},
		{{.pids = 1}, "--pids"},
		{{.files = 1ull << 40}, "--files"},
		{{.storage = "btrfs"}, "storage"},
		{{.storage = ""}, "storage"},
		{{.expire = "never", .ttl_ms = 1000}, "expire"},
		{{.expire = "remove"}, "--ttl"},
	};
	struct cove *cove = open_home();

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct cove_box_options o = bad[i].o;
		struct cove_error err;
		struct cove_box *box;

		o.size = sizeof(o);
		CHECK(cove_create(cove, &o, &box, &err) < 0);
		CHECK_EQ(err.kind, COVE_INVALID);
		CHECK(strstr(err.message, bad[i].said));
	}
	CHECK_EQ(count_boxes(cove), 0);
	close_home(cove);
}

TEST(sessions_are_checked_first)
{
	struct cove *cove = open_home();
	struct cove_error err;
	struct cove_box *box;

	CHECK(cove_open(cove, "id", "Bad_Prefix", BOX(0), &box, &err) < 0);
	CHECK_EQ(err.kind, COVE_INVALID);
	CHECK(cove_open(cove, "id", "a23456789012345678901234567890123456789012345678", BOX(0),
			&box, &err) < 0);
	CHECK_EQ(err.kind, COVE_INVALID);
	CHECK(cove_open(cove, "", NULL, BOX(0), &box, &err) < 0);
	CHECK(cove_open(cove, "id", NULL, BOX(.name = "x"), &box, &err) < 0);
	CHECK(cove_open(cove, "id", NULL, BOX(.one_shot = true), &box, &err) < 0);
	CHECK_EQ(err.kind, COVE_INVALID);
	CHECK(cove_close(cove, "id", NULL, false, &err) < 0);
	CHECK_EQ(err.kind, COVE_NOT_FOUND);
	CHECK_EQ(cove_close(cove, "id", NULL, true, &err), 0);
	close_home(cove);
}

/* Every call that only looks, on a state directory that is not there. */
TEST(looking_makes_no_state_directory)
{
	struct cove_workspace_info *spaces;
	struct cove_image_info *images;
	struct cove_exec_info *execs;
	char missing[80], *json;
	struct cove_stats stats;
	struct cove_error err;
	struct cove_box *box;
	struct cove *cove = open_home();

	cove_free(cove);
	snprintf(missing, sizeof(missing), "%s/missing", home);
	CHECK_EQ(cove_new(&cove,
			  &(struct cove_options){.size = sizeof(struct cove_options),
						 .home = missing},
			  &err),
		 0);
	CHECK_EQ(count_boxes(cove), 0);
	CHECK_EQ(cove_images(cove, &images, &err), 1); /* host */
	free(images);
	CHECK_EQ(cove_workspaces(cove, &spaces, &err), 0);
	free(spaces);
	CHECK_EQ(cove_inspect(cove, "a", &json, &err), -ENOENT);
	CHECK_EQ(cove_execs(cove, "a", &execs, &err), -ENOENT);
	CHECK_EQ(cove_events(cove, "a", false, NULL, NULL, &err), -ENOENT);
	CHECK_EQ(cove_find(cove, "a", &box, &err), -ENOENT);
	CHECK_EQ(cove_start(cove, "a", &err), -ENOENT);
	CHECK_EQ(cove_stop(cove, "a", NULL, 0, &err), -ENOENT);
	CHECK_EQ(cove_stats(cove, "a", &stats, &err), -ENOENT);
	CHECK_EQ(cove_pause(cove, "a", &err), -ENOENT);
	CHECK_EQ(cove_resume(cove, "a", &err), -ENOENT);
	CHECK_EQ(cove_remove(cove, "a", false, &err), -ENOENT);
	CHECK_EQ(cove_remove(cove, "a", true, &err), 0);
	CHECK_EQ(cove_close(cove, "a", NULL, false, &err), -ENOENT);
	CHECK(strstr(err.message, "cove ls"));
	CHECK_EQ(cove_close(cove, "a", NULL, true, &err), 0);
	CHECK_EQ(cove_workspace_remove(cove, "a", &err), -ENOENT);
	CHECK_EQ(cove_image_remove(cove, "a", &err), -ENOENT);
	CHECK(access(missing, F_OK) < 0);
	close_home(cove);
}

/* A stopped box of session "s", with an image, a variable and a mount of its own. */
static void make_session_box(struct cove *cove)
{
	struct spec spec = {
		.image = "host",
		.wall = "native",
		.session = "s",
		.created_ms = clock_wall_ms(),
		.env = {"TOKEN=hidden"},
		.env_count = 1,
		.mounts = {{.src = "/usr", .dst = "/data", .read_only = true}},
		.mount_count = 1,
		.limits = {[LIMIT_MEM] = 64 << 20, [LIMIT_PIDS] = 1024, [LIMIT_TTL] = 60000},
		.limits_asked = 1u << LIMIT_MEM | 1u << LIMIT_TTL | 1u << LIMIT_DISK,
	};
	char name[BOX_NAME_MAX + 1];
	int fd;

	CHECK_EQ(spec_session_name(NULL, "s", name, NULL), 0);
	spec.name = spec.workspace = name;
	CHECK_EQ(record_create(&cove->state, &spec, &fd, NULL), 0);
	close(fd);
}

TEST(a_session_is_never_silently_another)
{
	static const char *const mount[] = {"/usr:/data", NULL}, *const env[] = {"TOKEN=b", NULL};
	static const char *const label[] = {"a=b", NULL};
	const struct {
		const char *option;
		struct cove_box_options o;
	} cases[] = {
		{"--image", {.image = "base"}},
		{"--workspace", {.workspace = "other"}},
		{"--workspace", {.workspace = "/usr"}},
		{"--persistence", {.persistence = "box"}},
		{"--user", {.user = "root"}},
		{"--workdir", {.cwd = "/tmp"}},
		{"--timeout", {.timeout_ms = 5}},
		{"--mount", {.mounts = mount}},
		{"--env", {.env = env}},
		{"--label", {.labels = label}},
		{"--mem 64 MiB, not 128 MiB", {.mem_bytes = 128 << 20}},
		{"--mem 64 MiB, not none", {.mem_bytes = COVE_UNLIMITED}},
		/* A default is kept where it can be, what is asked for always. */
		{"--pids unset, not 1024", {.pids = 1024}},
		{"--disk none, not 16 MiB", {.disk_bytes = 16 << 20}},
		{"--idle unset, not 2 s", {.idle_ms = 2000}},
		{"--expire stop, not remove", {.ttl_ms = 60000, .expire = "remove"}},
		{"--storage unset, not plain", {.storage = "plain"}},
		{"--strict", {.strict = true}},
		{"--ptrace", {.ptrace = true}},
		{"--ctl", {.ctl = "info"}},
	};
	struct cove *cove = open_home();
	struct cove_error err;
	struct cove_box *box;

	make_session_box(cove);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct cove_box_options o = cases[i].o;

		o.size = sizeof(o);
		CHECK(cove_open(cove, "s", NULL, &o, &box, &err) < 0);
		CHECK_EQ(err.kind, COVE_CONFLICT);
		CHECK(strstr(err.message, cases[i].option));
		CHECK(strstr(err.message, "--delete"));
		CHECK(!strstr(err.message, "hidden"));
	}
	close_home(cove);
}

TEST(what_a_session_already_has_may_be_asked_for)
{
	static const char *const mount[] = {"/usr:/data:ro", NULL};
	static const char *const env[] = {"TOKEN=hidden", NULL};
	struct cove *cove = open_home();
	struct cove_error err;
	struct cove_box *box;

	make_session_box(cove);
	setenv("COVE_LIBEXEC", "/bin", 1);
	CHECK(cove_open(cove, "s", NULL,
			BOX(.image = "host", .mounts = mount, .env = env,
			    .persistence = "workspace", .mem_bytes = 64 << 20, .ttl_ms = 60000,
			    .expire = "stop", .disk_bytes = COVE_UNLIMITED, .best_effort = true),
			&box, &err) < 0);
	CHECK_EQ(err.kind, COVE_UNSUPPORTED); /* it would be started: /bin has no cove-keeper */
	close_home(cove);
}

TEST(what_is_not_there)
{
	struct cove *cove = open_home();
	struct cove_exec_info *execs;
	struct cove_error err;
	struct cove_box *box;
	char *json;

	CHECK(cove_find(cove, "x", &box, &err) < 0);
	CHECK_EQ(err.kind, COVE_NOT_FOUND);
	CHECK(cove_find(cove, "../x", &box, &err) < 0);
	CHECK_EQ(err.kind, COVE_NOT_FOUND);
	CHECK(cove_start(cove, "x", &err) < 0);
	CHECK(cove_stop(cove, "x", NULL, 0, &err) < 0);
	CHECK(cove_inspect(cove, "x", &json, &err) < 0);
	CHECK(cove_execs(cove, "x", &execs, &err) < 0);
	CHECK(cove_remove(cove, "x", false, &err) < 0);
	CHECK_EQ(err.kind, COVE_NOT_FOUND);
	CHECK_EQ(cove_remove(cove, "x", true, &err), 0);
	close_home(cove);
}

/* A directory as a crash, a bad disk or a person may leave it. */
TEST(anything_can_be_removed)
{
	struct cove *cove = open_home();
	int boxes = cove->state.boxes_fd, fd;
	struct cove_box_info *list;
	struct cove_error err;
	struct stat st;

	CHECK_EQ(mkdirat(boxes, "empty", 0700), 0);
	CHECK_EQ(mkdirat(boxes, "broken", 0700), 0);
	fd = openat(boxes, "broken/record", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CHECK_EQ(write(fd, "\0nonsense", 9), 9);
	close(fd);
	CHECK_EQ(symlinkat("/etc", boxes, "link"), 0);
	CHECK_EQ(symlinkat("/etc", boxes, "broken/upper"), 0);
	CHECK_EQ(cove_list(cove, &list, &err), 2);
	CHECK_STR(list[0].name, "broken");
	CHECK_STR(list[0].state, "damaged");
	CHECK_STR(list[1].name, "link");
	free(list);
	CHECK_EQ(cove_remove(cove, "empty", false, &err), 0);
	CHECK_EQ(cove_remove(cove, "broken", false, &err), 0);
	CHECK_EQ(cove_remove(cove, "link", true, &err), 0);
	CHECK_EQ(fstatat(boxes, "link", &st, AT_SYMLINK_NOFOLLOW), -1);
	CHECK_EQ(stat("/etc/passwd", &st), 0);
	close_home(cove);
}

static void make_record(struct cove *cove, const char *name, bool one_shot, bool live)
{
	struct spec spec = {.name = name,
			    .image = "base",
			    .wall = "native",
			    .one_shot = one_shot,
			    .created_ms = clock_wall_ms()};
	int fd = -1, lock_fd;

	CHECK_EQ(record_create(&cove->state, &spec, &fd, NULL), 0);
	if (live) {
		CHECK_EQ(record_lock(fd, &lock_fd, NULL), 0);
		CHECK_EQ(record_write_live(lock_fd, false, NULL), 0);
		close(lock_fd);
	}
	close(fd);
}

TEST(the_sweep_says_what_happened)
{
	struct cove *cove = open_home(), *again;
	struct cove_box_info *list;
	struct cove_error err;
	struct stat st;
	int n;

	make_record(cove, "lost", false, true);
	make_record(cove, "fresh", false, false);
	make_record(cove, "once", true, true);
	CHECK_EQ(mkdirat(cove->state.boxes_fd, ".gone-1", 0700), 0);
	CHECK_EQ(mkdirat(cove->state.boxes_fd, ".new-1", 0700), 0);
	CHECK_EQ(mkdirat(cove->state.run_fd, "nobody", 0700), 0);
	n = cove_list(cove, &list, &err);
	CHECK_EQ(n, 2);
	CHECK_STR(list[0].name, "fresh");
	CHECK_STR(list[0].state, "created");
	CHECK_STR(list[1].name, "lost");
	CHECK_STR(list[1].state, "stopped");
	CHECK_STR(list[1].cause, "keeper lost");
	CHECK(list[1].ended_ms > 0);
	free(list);
	CHECK(fstatat(cove->state.boxes_fd, ".gone-1", &st, 0) < 0);
	CHECK(fstatat(cove->state.boxes_fd, ".new-1", &st, 0) < 0);
	CHECK(fstatat(cove->state.run_fd, "nobody", &st, 0) < 0);
	/* Twice changes nothing. */
	CHECK_EQ(cove_new(&again,
			  &(struct cove_options){.size = sizeof(struct cove_options), .home = home},
			  &err),
		 0);
	CHECK_EQ(count_boxes(again), 2);
	cove_free(again);
	close_home(cove);
}

/* Its maker was killed long ago, before it ever ran. */
TEST(the_sweep_removes_what_was_abandoned)
{
	struct spec spec = {.name = "left", .image = "base", .wall = "native", .created_ms = 1};
	struct cove *cove = open_home();
	int lock = -1;

	CHECK_EQ(record_create(&cove->state, &spec, &lock, NULL), 0);
	CHECK_EQ(count_boxes(cove), 1);
	close(lock);
	cove->swept = false;
	CHECK_EQ(count_boxes(cove), 0);
	close_home(cove);
}

TEST(the_sweep_leaves_a_locked_box_alone)
{
	struct spec spec = {.name = "mine",
			    .image = "base",
			    .wall = "native",
			    .one_shot = true,
			    .created_ms = 1};
	struct cove *cove = open_home();
	int lock = -1;

	CHECK_EQ(record_create(&cove->state, &spec, &lock, NULL), 0);
	CHECK_EQ(count_boxes(cove), 1);
	close(lock);
	cove->swept = false;
	CHECK_EQ(count_boxes(cove), 0);
	close_home(cove);
}

static bool is_there(struct cove *cove, const char *name)
{
	struct stat st;

	return fstatat(cove->state.boxes_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void set_swept(struct cove *cove, time_t ago_s)
{
	const struct timespec t = {.tv_sec = time(NULL) - ago_s};

	CHECK_EQ(utimensat(cove->state.run_fd, ".swept", (struct timespec[]){t, t}, 0), 0);
	cove->swept = false;
}

TEST(what_happens_often_sweeps_seldom)
{
	struct cove *cove = open_home();

	make_record(cove, "once", true, true);
	core_sweep_seldom(cove); /* nobody ever did */
	CHECK(!is_there(cove, "once"));
	make_record(cove, "once", true, true);
	set_swept(cove, 10);
	core_sweep_seldom(cove);
	CHECK(is_there(cove, "once"));
	set_swept(cove, 61);
	core_sweep_seldom(cove);
	CHECK(!is_there(cove, "once"));
	/* The clock was set back. */
	make_record(cove, "once", true, true);
	set_swept(cove, -3600);
	core_sweep_seldom(cove);
	CHECK(!is_there(cove, "once"));
	close_home(cove);
}

TEST(one_box_is_swept_alone)
{
	static const char *const no_boxes[] = {"", ".", "..", "../boxes/other", "missing", "a/b"};
	struct cove *cove = open_home();

	make_record(cove, "once", true, true);
	make_record(cove, "other", true, true);
	for (size_t i = 0; i < sizeof(no_boxes) / sizeof(no_boxes[0]); i++)
		core_sweep_box(cove, no_boxes[i]);
	CHECK(is_there(cove, "once") && is_there(cove, "other"));
	core_sweep_box(cove, "once");
	CHECK(!is_there(cove, "once") && is_there(cove, "other"));
	close_home(cove);
}

static int events;
static char last_event[512];

static void on_event(void *arg, const char *line, const char *json)
{
	CHECK(strncmp(line, "[cove] ", 7) == 0);
	CHECK(!strchr(line, '\n'));
	CHECK(json[0] == '{' && json[strlen(json) - 1] == '}');
	snprintf(last_event, sizeof(last_event), "%s", line);
	events++;
}

TEST(failures_are_events)
{
	struct cove *cove = open_home();
	struct cove_error err;
	struct cove_box *box;

	cove->on_event = on_event;
	CHECK(cove_find(cove, "x\n[cove] forged", &box, &err) < 0);
	CHECK_EQ(events, 1);
	CHECK(strstr(last_event, "fail"));
	close_home(cove);
}

static void touch(struct cove *cove, const char *path)
{
	int fd = openat(cove->state.home_fd, path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	CHECK(fd >= 0);
	close(fd);
}

static int listen_in(struct cove *cove, const char *name)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0);
	CHECK_EQ(mkdirat(cove->state.run_fd, name, 0700), 0);
	snprintf(at.sun_path, sizeof(at.sun_path), "/proc/self/fd/%d/%s/keeper.sock",
		 cove->state.run_fd, name);
	CHECK_EQ(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	CHECK_EQ(listen(fd, 1), 0);
	return fd;
}

/* A keeper that deletes its box when it is told to; at once somebody makes another of its name. */
static void be_keeper(struct cove *cove, int box_fd, int ready_fd)
{
	struct wire_hello hello = {.lowest = WIRE_VERSION_MIN, .name = "b"};
	struct peer p = {0};
	struct wire_frame f;
	int lock, listen_fd = listen_in(cove, "b"); /* whoever listens is the keeper */

	CHECK_EQ(record_lock(box_fd, &lock, NULL), 0);
	CHECK_EQ(fd_write_full(ready_fd, "r", 1), 0);
	p.fd = accept(listen_fd, NULL, NULL);
	wire_decoder_init(&p.decoder);
	buf_init(&p.out, WIRE_OUT_MAX);
	CHECK_EQ(wire_hello_encode(&p.out, 0, 0, &hello), 0);
	peer_flush(&p);
	f = peer_expect(&p, WIRE_STOP);
	CHECK_EQ(renameat(cove->state.boxes_fd, "b", cove->state.boxes_fd, ".gone-b"), 0);
	CHECK_EQ(mkdirat(cove->state.boxes_fd, "b", 0700), 0);
	touch(cove, "door/used/b.11.pem");
	peer_send(&p, WIRE_OK, 0, f.id);
	peer_flush(&p);
	_exit(0);
}

TEST(a_new_box_of_the_same_name_keeps_its_authority)
{
	struct cove *cove = open_home();
	int box_fd, ready[2];
	struct err e = {0};
	char byte;
	pid_t pid;

	CHECK_EQ(mkdirat(cove->state.boxes_fd, "b", 0700), 0);
	box_fd = openat(cove->state.boxes_fd, "b", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(box_fd >= 0);
	CHECK(net_ca_dir(&cove->state, true, &e) >= 0);
	CHECK_EQ(mkdirat(cove->state.home_fd, NET_USED_DIR, 0700), 0);
	touch(cove, "door/used/b.00.pem");
	touch(cove, "door/used/b-c.00.pem");
	CHECK_EQ(pipe2(ready, O_CLOEXEC), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		be_keeper(cove, box_fd, ready[1]);
	CHECK_EQ(read(ready[0], &byte, 1), 1);
	if (box_destroy(cove, "b", "test", &e) < 0)
		FAIL(e.msg);
	CHECK_EQ(faccessat(cove->state.home_fd, "door/used/b.00.pem", F_OK, 0), -1);
	CHECK_EQ(faccessat(cove->state.home_fd, "door/used/b.11.pem", F_OK, 0), 0);
	CHECK_EQ(faccessat(cove->state.home_fd, "door/used/b-c.00.pem", F_OK, 0), 0);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	unlinkat(cove->state.run_fd, "b/keeper.sock", 0);
	unlinkat(cove->state.run_fd, "b", AT_REMOVEDIR);
	close_home(cove);
}

TAP_MAIN
