/* Records: made whole or not at all, read strictly, and honest about who is alive. */
#include "base/lines.h"
#include "base/str.h"
#include "store/record.h"
#include "store/refs.h"
#include "store/rollback.h"
#include "store_home.h"
#include "wire/msg.h"

#include <sys/stat.h>

static struct spec spec_of(const char *name)
{
	return (struct spec){.name = name, .image = "base", .wall = "native", .created_ms = 1};
}

static int create(struct state *s, const char *name, struct err *e)
{
	struct spec spec = spec_of(name);
	int fd = -1, r = record_create(s, &spec, &fd, e);

	fd_close(&fd);
	return r;
}

static void put_file(struct state *s, const char *box, const char *file, const void *p, size_t n)
{
	int fd;

	CHECK_EQ(record_open(s, box, &fd, NULL), 0);
	CHECK_EQ(fd_write_file(fd, file, p, n, 0600, false), 0);
	close(fd);
}

/* As an older Cove made it: without room for a run in its record, and with a lock. */
static void make_older(struct state *s, const char *box, const char *lock)
{
	char text[4096], *from, *end;
	int box_fd, fd;
	struct buf b;
	ssize_t n;

	CHECK_EQ(record_open(s, box, &box_fd, NULL), 0);
	fd = openat(box_fd, "record", O_RDONLY | O_CLOEXEC);
	n = read(fd, text, sizeof(text) - 1);
	CHECK(n > 0);
	text[n] = 0;
	end = strstr(text, "\n\n");
	from = strstr(text, "\nform 2\n");
	CHECK(end != NULL && from != NULL);
	end[1] = 0;
	buf_init(&b, SPEC_BYTES_MAX);
	CHECK_EQ(lines_begin_sum(&b), 0);
	CHECK_EQ(buf_append_str(&b, from + strlen("\nform 2\n")), 0);
	lines_end_sum(&b);
	put_file(s, box, "record", buf_data(&b), buf_len(&b));
	buf_done(&b);
	put_file(s, box, "lock", lock, strlen(lock));
	close(fd);
	close(box_fd);
}

/* What a keeper would say. */
static int say_live(int box_fd, bool durable)
{
	autoclose int fd = openat(box_fd, "record", O_RDWR | O_CLOEXEC);

	return record_write_live(fd, durable, NULL);
}

HOME_TEST(created_running_stopped)
{
	struct spec spec = spec_of("dev");
	struct record r;
	struct err e = {0};
	int box_fd, lock_fd, again;

	CHECK_EQ(record_create(s, &spec, &box_fd, &e), 0);
	CHECK_EQ(record_load(s, "dev", &r, &e), 0);
	CHECK_EQ(r.state, BOX_CREATED);
	record_done(&r);
	CHECK_EQ(record_lock(box_fd, &lock_fd, &e), 0);
	CHECK_EQ(record_lock(box_fd, &again, &e), -EBUSY);
	CHECK_EQ(record_write_live(lock_fd, true, &e), 0);
	CHECK(record_is_live(box_fd));
	CHECK_EQ(record_load(s, "dev", &r, &e), 0);
	CHECK_EQ(r.state, BOX_RUNNING);
	CHECK_EQ(r.keeper_pid, getpid());
	CHECK(r.started_ms > 0 && r.cause[0] == 0);
	record_done(&r);
	CHECK_EQ(record_write_end(box_fd, "stopped", "cove stop", true, &e), 0);
	CHECK_EQ(record_write_end(box_fd, "keeper lost", "sweep", true, &e), 0);
	close(lock_fd);
	CHECK(!record_is_live(box_fd));
	CHECK_EQ(record_load(s, "dev", &r, &e), 0);
	CHECK_EQ(r.state, BOX_STOPPED);
	CHECK_STR(r.cause, "stopped");
	CHECK_STR(r.by, "cove stop");
	CHECK(r.ended_ms > 0 && r.keeper_pid == 0);
	record_done(&r);
	close(box_fd);
}

HOME_TEST(times_of_an_older_box)
{
	static const char lock[] = "pid 7\nstarted_ms 1\n";
	struct record r;
	int box_fd, lock_fd;

	CHECK_EQ(create(s, "dev", NULL), 0);
	make_older(s, "dev", lock);
	CHECK_EQ(record_open(s, "dev", &box_fd, NULL), 0);
	CHECK_EQ(record_lock(box_fd, &lock_fd, NULL), 0);
	CHECK_EQ(record_write_live(lock_fd, false, NULL), 0);
	CHECK_EQ(record_set_times(lock_fd, 5000, 800, NULL), 0);
	CHECK_EQ(record_set_on_start(lock_fd, 12, NULL), 0);
	close(lock_fd);
	CHECK_EQ(record_load(s, "dev", &r, NULL), 0);
	CHECK(r.spec.limits[LIMIT_TTL] == 5000 && r.spec.limits[LIMIT_IDLE] == 800);
	CHECK_EQ(r.on_start, 12);
	r.spec.limits[LIMIT_TTL] = 6000;
	CHECK_EQ(record_replace(box_fd, &r.spec, NULL), 0);
	record_done(&r);
	CHECK_EQ(record_load(s, "dev", &r, NULL), 0);
	CHECK(r.spec.limits[LIMIT_TTL] == 6000 && r.spec.limits[LIMIT_IDLE] == 800);
	record_done(&r);
	close(box_fd);
}

HOME_TEST(the_lock_says_whether_it_is_paused)
{
	static const char old[] = "pid 7\nstarted_ms 1\n";
	struct spec spec = spec_of("dev");
	struct record r;
	int box_fd, lock_fd;

	CHECK_EQ(record_create(s, &spec, &box_fd, NULL), 0);
	CHECK_EQ(record_lock(box_fd, &lock_fd, NULL), 0);
	CHECK_EQ(record_set_paused(lock_fd, true, NULL, NULL), -EBADMSG);
	CHECK(!record_ran_before(lock_fd));
	CHECK_EQ(record_write_live(lock_fd, false, NULL), 0);
	CHECK(record_ran_before(lock_fd));
	for (int i = 0; i < 4; i++) {
		CHECK_EQ(record_set_paused(lock_fd, i < 2, NULL, NULL), 0);
		CHECK_EQ(record_load(s, "dev", &r, NULL), 0);
		CHECK_EQ(r.paused, i < 2);
		CHECK_EQ(r.init_revision, WIRE_INIT_REVISION);
		record_done(&r);
	}
	CHECK_EQ(record_set_paused(lock_fd, true, NULL, NULL), 0);
	close(lock_fd);
	/* Its keeper is gone: nothing is paused any more. */
	CHECK_EQ(record_load(s, "dev", &r, NULL), 0);
	CHECK(!r.paused && r.state == BOX_STOPPED);
	record_done(&r);
	/* One from before, and others that are damaged. */
	make_older(s, "dev", old);
	CHECK_EQ(record_load(s, "dev", &r, NULL), 0);
	CHECK_EQ(r.init_revision, 0);
	record_done(&r);
	put_file(s, "dev", "lock", "started_ms 1\npaused 2\n", 22);
	CHECK(record_load(s, "dev", &r, NULL) < 0);
	CHECK_EQ(record_lock(box_fd, &lock_fd, NULL), 0);
	CHECK_EQ(record_set_paused(lock_fd, true, NULL, NULL), -EBADMSG);
	close(lock_fd);
	/* It can be ended all the same. */
	CHECK_EQ(record_write_end(box_fd, "stopped", "", false, NULL), 0);
	CHECK_EQ(record_load(s, "dev", &r, NULL), 0);
	CHECK_STR(r.cause, "stopped");
	record_done(&r);
	close(box_fd);
}

HOME_TEST(a_second_run_forgets_the_first_end)
{
	struct spec spec = spec_of("dev");
	struct record r;
	int box_fd;

	CHECK_EQ(record_create(s, &spec, &box_fd, NULL), 0);
	CHECK_EQ(say_live(box_fd, false), 0);
	CHECK_EQ(record_write_end(box_fd, "stopped", "", false, NULL), 0);
	CHECK_EQ(say_live(box_fd, false), 0);
	CHECK_EQ(record_load(s, "dev", &r, NULL), 0);
	CHECK_STR(r.cause, "keeper lost");
	CHECK_EQ(r.ended_ms, 0);
	record_done(&r);
	close(box_fd);
}

/* The text of a file of a box that is to be damaged. */
static size_t read_file(struct state *s, const char *file, char *ret, size_t size)
{
	int box_fd, fd;
	ssize_t n;

	CHECK_EQ(record_open(s, "dev", &box_fd, NULL), 0);
	fd = openat(box_fd, file, O_RDONLY | O_CLOEXEC);
	n = read(fd, ret, size);
	CHECK(n > 0 && n < (ssize_t)size);
	close(fd);
	close(box_fd);
	return (size_t)n;
}

static void must_be_damaged(struct state *s)
{
	struct record r;
	struct err e = {0};

	CHECK(record_load(s, "dev", &r, &e) < 0);
	CHECK_EQ(e.kind, ERR_DAMAGED);
	CHECK(strstr(e.msg, "'dev'") != NULL);
}

/* No flip of a single bit, and no cut, is ever used. Of empty lines one bit each will do. */
static void flip_and_cut(struct state *s, const char *file)
{
	static char text[4096];
	size_t n = read_file(s, file, text, sizeof(text));
	struct record r;
	int box_fd, fd;

	CHECK_EQ(record_open(s, "dev", &box_fd, NULL), 0);
	fd = openat(box_fd, file, O_RDWR | O_CLOEXEC);
	for (size_t bit = 0; bit < n * 8; bit++) {
		size_t at = bit / 8;
		char changed = (char)(text[at] ^ 1 << bit % 8);

		if (at > 0 && text[at - 1] == '\n' && text[at] == '\n' && bit % 8 != at % 8)
			continue;
		CHECK_EQ(pwrite(fd, &changed, 1, (off_t)at), 1);
		must_be_damaged(s);
		CHECK_EQ(pwrite(fd, text + at, 1, (off_t)at), 1);
	}
	/* An empty lock is of a box that never ran. */
	for (size_t cut = n - 1; cut > 0; cut--) {
		CHECK_EQ(ftruncate(fd, (off_t)cut), 0);
		must_be_damaged(s);
	}
	CHECK_EQ(pwrite(fd, text, n, 0), (ssize_t)n);
	close(fd);
	close(box_fd);
	CHECK_EQ(record_load(s, "dev", &r, NULL), 0);
	CHECK(r.has_sum && r.spec.env_count == 2);
	CHECK_STR(r.spec.env[1], "B=\\\n");
	record_done(&r);
}

static void create_with_env(struct state *s, const char *first, int *ret_box_fd)
{
	struct spec spec = spec_of("dev");

	spec.env[0] = first;
	spec.env[1] = "B=\\\n";
	spec.env_count = 2;
	CHECK_EQ(record_create(s, &spec, ret_box_fd, NULL), 0);
}

HOME_TEST(every_flipped_bit_is_seen)
{
	char lock[1025] = "";
	int box_fd;

	create_with_env(s, "A=b c", &box_fd);
	flip_and_cut(s, "record"); /* it never ran */
	CHECK_EQ(say_live(box_fd, false), 0);
	CHECK_EQ(record_write_end(box_fd, "stopped", "cove stop", false, NULL), 0);
	flip_and_cut(s, "record");
	/* An older Cove's two files. */
	make_older(s, "dev", lock);
	CHECK_EQ(record_write_end(box_fd, "stopped", "cove stop", false, NULL), 0);
	flip_and_cut(s, "record");
	flip_and_cut(s, "lock");
	close(box_fd);
}

/* Wherever the text of the spec ends, the run begins on a border. */
HOME_TEST(a_spec_of_any_length)
{
	char value[1100];
	struct record r;
	int box_fd;

	for (size_t n = 850; n < 1050; n++) {
		struct stat st;

		memset(value, 'a', n - 1);
		memcpy(value, "A=", 2);
		value[n - 1] = 0;
		create_with_env(s, value, &box_fd);
		CHECK_EQ(say_live(box_fd, false), 0);
		CHECK_EQ(record_load(s, "dev", &r, NULL), 0);
		CHECK_STR(r.spec.env[0], value);
		CHECK_EQ(r.state, BOX_STOPPED);
		record_done(&r);
		CHECK_EQ(fstatat(box_fd, "record", &st, 0), 0);
		CHECK_EQ(st.st_size % 1024, 0);
		CHECK_EQ(unlinkat(box_fd, "record", 0), 0);
		CHECK_EQ(unlinkat(s->boxes_fd, "dev", AT_REMOVEDIR), 0);
		close(box_fd);
	}
}

HOME_TEST(a_damaged_run_is_mended_by_who_ends_the_box)
{
	static const char *const texts[] = {"sum crc32c:00000000\npid 1\nstarted_ms 1\n", "sum ",
					    "\0\0\0"};
	struct spec spec = spec_of("dev");
	char huge[3000];
	struct record r;
	int box_fd;
	size_t n;

	CHECK_EQ(record_create(s, &spec, &box_fd, NULL), 0);
	CHECK_EQ(record_mend_run(box_fd, "cove stop", NULL), 0);
	CHECK_EQ(record_load(s, "dev", &r, NULL), 0);
	CHECK_EQ(r.state, BOX_CREATED);
	record_done(&r);
	CHECK_EQ(say_live(box_fd, false), 0);
	n = read_file(s, "record", huge, sizeof(huge));
	huge[n - 1000]++;
	put_file(s, "dev", "record", huge, n);
	must_be_damaged(s);
	CHECK_EQ(record_mend_run(box_fd, "cove stop", NULL), 0);
	CHECK_EQ(record_load(s, "dev", &r, NULL), 0);
	CHECK_STR(r.cause, "damaged");
	record_done(&r);
	make_older(s, "dev", "");
	memset(huge, 'a', sizeof(huge));
	for (size_t i = 0; i < 4; i++) {
		put_file(s, "dev", "lock", i < 3 ? texts[i] : huge,
			 i == 2	 ? 3
			 : i < 3 ? strlen(texts[i])
				 : sizeof(huge));
		must_be_damaged(s);
		CHECK_EQ(record_mend_run(box_fd, "cove stop", NULL), 0);
		CHECK_EQ(record_load(s, "dev", &r, NULL), 0);
		CHECK_EQ(r.state, BOX_STOPPED);
		CHECK_STR(r.cause, "damaged");
		record_done(&r);
	}
	close(box_fd);
}

HOME_TEST(a_record_without_a_sum_is_read_and_renewed)
{
	static const char old[] = "name dev\nimage base\nwall native\ncreated_ms 1\n";
	static const char newer[] = "name dev\nimage base\nwall native\nholograms 1\n";
	struct spec spec = spec_of("dev");
	struct err e = {0};
	struct record r;
	struct buf b;
	int box_fd;

	CHECK_EQ(record_create(s, &spec, &box_fd, NULL), 0);
	put_file(s, "dev", "record", old, strlen(old));
	CHECK_EQ(record_load(s, "dev", &r, NULL), 0);
	CHECK(!r.has_sum);
	CHECK_EQ(record_renew(box_fd, &r.spec, NULL), 0);
	record_done(&r);
	CHECK_EQ(record_load(s, "dev", &r, NULL), 0);
	CHECK(r.has_sum && r.spec.created_ms == 1);
	record_done(&r);
	/* What a newer Cove wrote is not called damaged. */
	buf_init(&b, 1024);
	CHECK_EQ(lines_begin_sum(&b), 0);
	CHECK_EQ(buf_append_str(&b, newer), 0);
	lines_end_sum(&b);
	put_file(s, "dev", "record", buf_data(&b), buf_len(&b));
	buf_done(&b);
	CHECK(record_load(s, "dev", &r, &e) < 0);
	CHECK_EQ(e.kind, ERR_PROTOCOL);
	put_file(s, "dev", "record", newer, strlen(newer));
	must_be_damaged(s);
	close(box_fd);
}

/* Whoever reads while another writes gets what was before or what comes after. */
HOME_TEST(a_reader_beside_a_writer)
{
	struct spec spec = spec_of("dev");
	int box_fd;
	pid_t pid;

	CHECK_EQ(record_create(s, &spec, &box_fd, NULL), 0);
	CHECK_EQ(say_live(box_fd, false), 0);
	pid = fork();
	if (pid == 0)
		for (;;) {
			say_live(box_fd, false);
			record_write_end(box_fd, "a cause that is long enough", "by", false, NULL);
		}
	for (int i = 0; i < 5000; i++) {
		struct record r;

		CHECK_EQ(record_load(s, "dev", &r, NULL), 0);
		CHECK(r.state == BOX_STOPPED && r.started_ms > 0);
		record_done(&r);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(box_fd);
}

/* An older Cove kept it in two files beside an empty lock. */
HOME_TEST(what_an_older_cove_said_counts)
{
	static const char live[] = "run 8f551af0fe41d9d2\npid 7\nat_ms 5\ninit 1\npaused 1\n";
	static const char end[] = "run 8f551af0fe41d9d2\ncause stopped\nby cove stop\nat_ms 9\n";
	static const char other[] = "run 0000000000000000\ncause stopped\nby x\nat_ms 3\n";
	struct record r;
	int box_fd, lock_fd;

	CHECK_EQ(create(s, "dev", NULL), 0);
	make_older(s, "dev", "");
	put_file(s, "dev", "live", live, strlen(live));
	put_file(s, "dev", "end", other, strlen(other));
	CHECK_EQ(record_load(s, "dev", &r, NULL), 0);
	CHECK_EQ(r.state, BOX_STOPPED);
	CHECK_STR(r.cause, "keeper lost");
	CHECK(r.started_ms == 5 && r.ended_ms == 0);
	record_done(&r);
	put_file(s, "dev", "end", end, strlen(end));
	CHECK_EQ(record_load(s, "dev", &r, NULL), 0);
	CHECK_EQ(r.state, BOX_STOPPED);
	CHECK_STR(r.cause, "stopped");
	CHECK_STR(r.by, "cove stop");
	CHECK(r.started_ms == 5 && r.ended_ms == 9);
	record_done(&r);
	/* Its keeper still runs; then one of this Cove. */
	CHECK_EQ(record_open(s, "dev", &box_fd, NULL), 0);
	CHECK_EQ(unlinkat(box_fd, "end", 0), 0);
	CHECK_EQ(record_lock(box_fd, &lock_fd, NULL), 0);
	CHECK_EQ(record_load(s, "dev", &r, NULL), 0);
	CHECK(r.state == BOX_RUNNING && r.keeper_pid == 7 && r.paused && r.init_revision == 1);
	record_done(&r);
	CHECK_EQ(record_write_live(lock_fd, false, NULL), 0);
	CHECK_EQ(record_load(s, "dev", &r, NULL), 0);
	CHECK(r.state == BOX_RUNNING && r.keeper_pid == getpid() && !r.paused);
	record_done(&r);
	close(lock_fd);
	close(box_fd);
}

HOME_TEST(another_boot_is_a_reboot)
{
	static const char text[] = "pid 1\nboot 00000000-0000-0000-0000-000000000000\n"
				   "started_ms 5\n";
	struct record r;

	CHECK_EQ(create(s, "dev", NULL), 0);
	make_older(s, "dev", text);
	CHECK_EQ(record_load(s, "dev", &r, NULL), 0);
	CHECK_EQ(r.state, BOX_STOPPED);
	CHECK_STR(r.cause, "host reboot");
	CHECK_EQ(r.started_ms, 5);
	record_done(&r);
}

HOME_TEST(the_lock_goes_with_its_process)
{
	struct spec spec = spec_of("dev");
	int box_fd, lock_fd, ready[2];
	pid_t pid;
	char c;

	CHECK_EQ(record_create(s, &spec, &box_fd, NULL), 0);
	CHECK(pipe2(ready, O_CLOEXEC) == 0);
	pid = fork();
	if (pid == 0) {
		CHECK_EQ(record_lock(box_fd, &lock_fd, NULL), 0);
		CHECK(write(ready[1], "r", 1) == 1);
		pause();
	}
	CHECK(read(ready[0], &c, 1) == 1);
	for (int i = 0; i < 100; i++)
		CHECK(record_is_live(box_fd));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	CHECK(!record_is_live(box_fd));
	CHECK_EQ(record_lock(box_fd, &lock_fd, NULL), 0);
	close(lock_fd);
	close(box_fd);
}

HOME_TEST(asking_never_keeps_a_keeper_from_its_lock)
{
	struct spec spec = spec_of("dev");
	int box_fd;
	pid_t pid;

	CHECK_EQ(record_create(s, &spec, &box_fd, NULL), 0);
	pid = fork();
	if (pid == 0)
		for (;;)
			record_is_live(box_fd);
	for (int i = 0; i < 2000; i++) {
		int lock_fd;

		CHECK_EQ(record_lock(box_fd, &lock_fd, NULL), 0);
		close(lock_fd);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(box_fd);
}

/* A box that cannot be looked at may stand on anything. */
HOME_TEST(layers_of_a_rollback_are_known_or_it_is_an_error)
{
	static const char id[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
	struct rollback rb = {.token = "t", .layers = {id}, .layer_count = 1};
	struct spec spec = {.name = "dev", .image = "base", .wall = "native"};
	struct refs refs = {0};
	struct err e = {0};
	int box_fd;

	CHECK_EQ(record_create(s, &spec, &box_fd, &e), 0);
	CHECK_EQ(rollback_write(box_fd, &rb, &e), 0);
	close(box_fd);
	CHECK_EQ(rollback_refs(s, &refs, &e), 0);
	CHECK_EQ(refs.count, 1);
	refs_done(&refs);
	CHECK_EQ(symlinkat("dev", s->boxes_fd, "alias"), 0);
	CHECK(rollback_refs(s, &refs, &e) < 0 && e.kind != ERR_NONE);
	refs_done(&refs);
}

HOME_TEST(a_name_is_taken_once)
{
	struct err e = {0};

	CHECK_EQ(create(s, "dev", &e), 0);
	CHECK_EQ(create(s, "dev", &e), -EEXIST);
	CHECK_EQ(e.kind, ERR_EXISTS);
	CHECK_EQ(count_names(s->boxes_fd), 1);
	CHECK(create(s, "../evil", &e) < 0);
	CHECK(create(s, "", &e) < 0);
	CHECK_EQ(count_names(s->boxes_fd), 1);
}

HOME_TEST(of_eight_at_once_exactly_one_wins)
{
	enum { MAKERS = 8, ROUNDS = 20 };

	for (int round = 0; round < ROUNDS; round++) {
		pid_t pids[MAKERS];
		int won = 0, go[2];
		char name[32];

		snprintf(name, sizeof(name), "dev-%d", round);
		CHECK(pipe2(go, O_CLOEXEC) == 0);
		for (int i = 0; i < MAKERS; i++) {
			pids[i] = fork();
			if (pids[i] == 0) {
				char c;

				close(go[1]);
				if (read(go[0], &c, 1) != 0)
					_exit(9);
				_exit(-create(s, name, NULL));
			}
		}
		close(go[0]);
		close(go[1]);
		for (int i = 0; i < MAKERS; i++) {
			int status;

			CHECK(waitpid(pids[i], &status, 0) == pids[i] && WIFEXITED(status));
			CHECK(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == EEXIST);
			won += WEXITSTATUS(status) == 0;
		}
		CHECK_EQ(won, 1);
	}
	CHECK_EQ(count_names(s->boxes_fd), ROUNDS);
}

/* Killed anywhere: what has a name is whole, what is not is a leftover that goes away. */
HOME_TEST(kill_in_the_middle_leaves_nothing_visible)
{
	size_t count;
	char **names;

	for (int i = 0; i < 60; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			for (int k = 0;; k++) {
				char name[32];
				int fd = -1;
				struct spec spec;

				snprintf(name, sizeof(name), "k%d-%d", i, k);
				spec = spec_of(name);
				spec.one_shot =
					i % 2; /* without waiting for the disk it gets further */
				record_create(s, &spec, &fd, NULL);
				fd_close(&fd);
			}
		}
		usleep((useconds_t)(200 + i * 37)); /* where in the work it dies is meant to vary */
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	CHECK_EQ(record_names(s, &names, &count, NULL), 0);
	CHECK(count_names(s->boxes_fd) > 0);
	for (size_t i = 0; i < count; i++) {
		struct record r;

		CHECK_EQ(record_load(s, names[i], &r, NULL), 0);
		record_done(&r);
	}
	state_names_free(names, count);
	CHECK_EQ(state_leftovers(s->boxes_fd, &names, &count), 0);
	for (size_t i = 0; i < count; i++)
		CHECK_EQ(tree_remove(s->boxes_fd, names[i], NULL), 0);
	state_names_free(names, count);
	CHECK_EQ(record_names(s, &names, &count, NULL), 0);
	CHECK_EQ(count_names(s->boxes_fd), (int)count);
	state_names_free(names, count);
}

HOME_TEST(a_creator_is_known_by_its_claim)
{
	struct spec spec = spec_of("dev");
	int box_fd, other;
	struct err e = {0};

	CHECK_EQ(record_create(s, &spec, &box_fd, NULL), 0);
	CHECK_EQ(record_open(s, "dev", &other, NULL), 0);
	CHECK_EQ(record_lock_operation(other, false, &e), -EBUSY);
	close(box_fd);
	CHECK_EQ(record_lock_operation(other, false, &e), 0);
	close(other);
}

HOME_TEST(damaged_records_are_errors)
{
	static const char *const bad[] = {"", "name dev\nimage base\nwall nat",
					  "name other\nimage base\n"
					  "wall native\ncreated_ms 1\n",
					  "garbage", "name dev\nimage base\nwall native\nzzz 1\n"};
	char *huge = calloc(1, SPEC_BYTES_MAX + 1);
	struct record r = {0};
	struct err e = {0};

	CHECK_EQ(create(s, "dev", NULL), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		put_file(s, "dev", "record", bad[i], strlen(bad[i]));
		CHECK(record_load(s, "dev", &r, &e) < 0);
	}
	put_file(s, "dev", "record", "name dev\nimage base\nwall native\n\0x 1\n", 37);
	CHECK(record_load(s, "dev", &r, NULL) < 0);
	memset(huge, 'a', SPEC_BYTES_MAX + 1);
	put_file(s, "dev", "record", huge, SPEC_BYTES_MAX + 1);
	CHECK(record_load(s, "dev", &r, NULL) < 0);
	put_file(s, "dev", "record", "name dev\nimage base\nwall native\ncreated_ms 1\n", 45);
	CHECK_EQ(record_load(s, "dev", &r, NULL), 0);
	record_done(&r);
	put_file(s, "dev", "lock", huge, 5000);
	CHECK(record_load(s, "dev", &r, NULL) < 0);
	put_file(s, "dev", "lock", "pid 1\n", 6);
	CHECK(record_load(s, "dev", &r, NULL) < 0);
	free(huge);
}

/* A link or a FIFO where a record should be must neither be followed nor waited for. */
HOME_TEST(what_is_no_file_is_not_read)
{
	struct record r = {0};
	int fd;

	CHECK_EQ(create(s, "dev", NULL), 0);
	CHECK_EQ(record_open(s, "dev", &fd, NULL), 0);
	CHECK(unlinkat(fd, "record", 0) == 0 && symlinkat("/etc/passwd", fd, "record") == 0);
	CHECK(record_load(s, "dev", &r, NULL) < 0);
	CHECK(unlinkat(fd, "record", 0) == 0 && mkfifoat(fd, "record", 0600) == 0);
	CHECK(record_load(s, "dev", &r, NULL) < 0);
	CHECK(symlinkat("dev", s->boxes_fd, "link") == 0);
	CHECK(record_load(s, "link", &r, NULL) < 0);
	close(fd);
}

HOME_TEST(burying_frees_the_name_and_twice_is_fine)
{
	char trash[64], **names;
	size_t count;

	CHECK_EQ(create(s, "dev", NULL), 0);
	CHECK_EQ(record_trash(s, "dev", true, trash, NULL), 0);
	CHECK(str_starts(trash, ".gone-"));
	CHECK_EQ(record_names(s, &names, &count, NULL), 0);
	CHECK_EQ(count, 0);
	state_names_free(names, count);
	CHECK_EQ(create(s, "dev", NULL), 0);
	CHECK_EQ(tree_remove(s->boxes_fd, trash, NULL), 0);
	CHECK_EQ(record_trash(s, "missing", true, trash, NULL), 0);
	CHECK_STR(trash, "");
	CHECK(record_trash(s, "../x", true, trash, NULL) < 0);
}

HOME_TEST(a_missing_box_is_not_found)
{
	struct record r = {0};
	struct err e = {0};

	CHECK_EQ(record_load(s, "nope", &r, &e), -ENOENT);
	CHECK_EQ(e.kind, ERR_NOT_FOUND);
	CHECK_EQ(record_load(s, "../boxes", &r, &e), -ENOENT);
}

HOME_TEST(who_uses_an_image_or_workspace)
{
	struct spec spec = spec_of("dev");
	char box[BOX_NAME_MAX + 1];
	int fd;

	spec.workspace = "code";
	CHECK_EQ(record_create(s, &spec, &fd, NULL), 0);
	close(fd);
	CHECK_EQ(record_find_user(s, "base", NULL, NULL, box, NULL), 1);
	CHECK_STR(box, "dev");
	CHECK_EQ(record_find_user(s, NULL, NULL, "code", box, NULL), 1);
	CHECK_EQ(record_find_user(s, "other", "other", "other", box, NULL), 0);
}

TAP_MAIN
