/* The broker: gives what the policy on disk names and nothing else, writes rows before it answers,
 * and ends with its proxy. */
#include "store_home.h"
#include "tap.h"

#include "base/limits.h"
#include "door/broker.h"
#include "door/fold.h"
#include "door/used.h"
#include "store/net.h"
#include "store/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static struct state st;
static struct err e;
static struct ev *ev;
static struct broker *broker;
static struct door_config config;
static int box_fd;

static const char policy_text[] = "version: 1\n"
				  "rules:\n"
				  "  - allow: api.test\n"
				  "    inject:\n"
				  "      headers: {Authorization: \"Bearer {{ secret.NAMED }}\"}\n";

static void put_policy(const char *text)
{
	CHECK_EQ(fd_write_file(box_fd, NET_POLICY_FILE, text, strlen(text), 0600, false), 0);
}

static void set_up_of(const char *owner)
{
	home_open(&st);
	CHECK_EQ(mkdirat(st.boxes_fd, "box", 0700), 0);
	box_fd = openat(st.boxes_fd, "box", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(box_fd >= 0);
	put_policy(policy_text);
	config = (struct door_config){
		.home = home_path, .box = "box", .created_ms = 7, .owner = owner, .policy = "file"};
	CHECK_EQ(ev_new(&ev), 0);
	CHECK_EQ(broker_start(&broker, ev, &config, &e), 0);
}

static void set_up(void)
{
	set_up_of(NULL);
}

static void tear_down(void)
{
	broker_free(broker);
	ev_free(ev);
	fd_close(&box_fd);
}

#define BROKER_TEST(name) TEST_IN(name, (void), set_up(); body(); tear_down();)
#define OWNED_TEST(name)  TEST_IN(name, (void), set_up_of("1a2b3c4d"); body(); tear_down();)

struct wish {
	struct broker_call call;
	int r, answers;
	struct err e;
};

static unsigned waiting;

static void on_answer(struct broker_call *c, int r, struct err *why)
{
	struct wish *w = container(c, struct wish, call);

	w->r = r;
	w->answers++;
	if (r < 0)
		w->e = *why;
	if (--waiting == 0)
		ev_quit(ev);
}

static void wish_init(struct wish *w)
{
	*w = (struct wish){.call.on_answer = on_answer};
	waiting++;
}

static void set(const char *name, enum secret_source source, const char *text)
{
	CHECK_EQ(secret_set(&st, name, source, text, strlen(text), &e), 0);
}

/* Asks for a secret and waits; the wish has it. */
static void ask(struct wish *w, const char *name)
{
	wish_init(w);
	broker_ask_secret(broker, &w->call, name);
	CHECK_EQ(w->answers, 0);
	CHECK_EQ(ev_run(ev), 0);
	CHECK_EQ(w->answers, 1);
}

static bool is_value(struct wish *w, const char *text)
{
	bool same = w->r == 0 && w->call.secret.len == strlen(text) &&
		    memcmp(w->call.secret.data, text, strlen(text)) == 0;

	secret_done(&w->call.secret);
	return same;
}

BROKER_TEST(the_policy_and_the_grants)
{
	struct wish w;

	wish_init(&w);
	broker_ask(broker, &w.call, BROKER_POLICY);
	CHECK_EQ(ev_run(ev), 0);
	CHECK_EQ(w.r, 0);
	CHECK_STR(w.call.text, policy_text);
	free(w.call.text);
	wish_init(&w);
	broker_ask(broker, &w.call, BROKER_GRANTS);
	CHECK_EQ(ev_run(ev), 0);
	CHECK_EQ(w.call.len, 0);
	free(w.call.text);
}

BROKER_TEST(a_policy_of_many_parts)
{
	char *big = malloc(DOOR_POLICY_MAX);
	struct wish w;

	memset(big, '#', DOOR_POLICY_MAX - 1);
	big[DOOR_POLICY_MAX - 1] = 0;
	put_policy(big);
	wish_init(&w);
	broker_ask(broker, &w.call, BROKER_POLICY);
	CHECK_EQ(ev_run(ev), 0);
	CHECK_EQ(w.r, 0);
	CHECK_STR(w.call.text, big);
	free(w.call.text);
	free(big);
}

BROKER_TEST(without_a_policy_there_is_an_error)
{
	struct wish w;

	CHECK_EQ(unlinkat(box_fd, NET_POLICY_FILE, 0), 0);
	wish_init(&w);
	broker_ask(broker, &w.call, BROKER_POLICY);
	CHECK_EQ(ev_run(ev), 0);
	CHECK_EQ(w.r, -ENOENT);
	ask(&w, "NAMED");
	CHECK(w.r < 0);
}

BROKER_TEST(only_secrets_that_the_policy_names)
{
	struct wish w;

	set("NAMED", SECRET_VALUE, "one");
	set("OTHER", SECRET_VALUE, "two");
	ask(&w, "NAMED");
	CHECK(is_value(&w, "one"));
	ask(&w, "OTHER");
	CHECK_EQ(w.r, -EACCES);
	CHECK(w.call.secret.data == NULL);
	ask(&w, "../boxes/box/policy");
	CHECK_EQ(w.r, -EACCES);
	ask(&w, "");
	CHECK(w.r < 0);
}

/* The box of an API key: what its policy names is the key's, whatever the operator has. */
OWNED_TEST(of_a_key_only_its_own_secrets)
{
	char path[128];
	struct wish w;

	set("NAMED", SECRET_VALUE, "the operator's");
	set("1a2b3c4e.NAMED", SECRET_VALUE, "another key's");
	ask(&w, "NAMED");
	CHECK_EQ(w.r, -ENOENT);
	CHECK(w.call.secret.data == NULL);
	set("1a2b3c4d.NAMED", SECRET_VALUE, "its own");
	ask(&w, "NAMED");
	CHECK(is_value(&w, "its own"));
	/* A proxy that was taken over asks in every other way. */
	ask(&w, "1a2b3c4d.NAMED");
	CHECK_EQ(w.r, -EACCES);
	ask(&w, "1a2b3c4e.NAMED");
	CHECK_EQ(w.r, -EACCES);
	/* What the operator gives it, by a file or a command. */
	snprintf(path, sizeof(path), "%s/token", home_path);
	CHECK_EQ(fd_write_file(st.home_fd, "token", "from a file", 11, 0600, false), 0);
	set("1a2b3c4d.NAMED", SECRET_FILE, path);
	ask(&w, "NAMED");
	CHECK(is_value(&w, "from a file"));
	CHECK_EQ(secret_set_command(&st, "1a2b3c4d.NAMED", "echo from a command", 60000, &e), 0);
	for (int i = 0; i < 2; i++) {
		ask(&w, "NAMED");
		CHECK(is_value(&w, "from a command"));
	}
	CHECK_EQ(secret_remove(&st, "1a2b3c4d.NAMED", &e), 0);
	ask(&w, "NAMED");
	CHECK_EQ(w.r, -ENOENT);
}

/* And the operator's own box none of a key. */
BROKER_TEST(without_a_key_none_of_one)
{
	struct wish w;

	set("1a2b3c4d.NAMED", SECRET_VALUE, "a key's");
	ask(&w, "NAMED");
	CHECK_EQ(w.r, -ENOENT);
	ask(&w, "1a2b3c4d.NAMED");
	CHECK_EQ(w.r, -EACCES);
}

BROKER_TEST(a_changed_policy_holds_at_once)
{
	struct wish w;

	set("NAMED", SECRET_VALUE, "one");
	ask(&w, "NAMED");
	CHECK(is_value(&w, "one"));
	put_policy("version: 1\nrules: []\n");
	ask(&w, "NAMED");
	CHECK(w.r < 0);
	put_policy("not a policy");
	ask(&w, "NAMED");
	CHECK(w.r < 0);
	put_policy(policy_text);
	ask(&w, "NAMED");
	CHECK(is_value(&w, "one"));
}

BROKER_TEST(a_rotated_secret_is_given_anew)
{
	struct wish w;

	ask(&w, "NAMED");
	CHECK_EQ(w.r, -ENOENT);
	set("NAMED", SECRET_VALUE, "one");
	ask(&w, "NAMED");
	CHECK(is_value(&w, "one"));
	set("NAMED", SECRET_VALUE, "two");
	ask(&w, "NAMED");
	CHECK(is_value(&w, "two"));
}

BROKER_TEST(from_a_file)
{
	char path[128];
	struct wish w;

	snprintf(path, sizeof(path), "%s/token", home_path);
	set("NAMED", SECRET_FILE, path);
	ask(&w, "NAMED");
	CHECK_EQ(w.r, -ENOENT);
	CHECK_EQ(fd_write_file(st.home_fd, "token", "tok\n", 4, 0600, false), 0);
	ask(&w, "NAMED");
	CHECK(is_value(&w, "tok"));
	CHECK_EQ(fd_write_file(st.home_fd, "token", "", 0, 0600, false), 0);
	ask(&w, "NAMED");
	CHECK(w.r < 0);
	CHECK_EQ(unlinkat(st.home_fd, "token", 0), 0);
	CHECK_EQ(mkfifoat(st.home_fd, "token", 0600), 0);
	ask(&w, "NAMED"); /* nobody writes: it is empty, and nothing hangs */
	CHECK(w.r < 0);
	set("NAMED", SECRET_FILE, "/dev/zero");
	ask(&w, "NAMED");
	CHECK(w.r < 0);
}

BROKER_TEST(from_a_command)
{
	struct wish w;

	set("NAMED", SECRET_COMMAND, "printf 'a b\\n'");
	ask(&w, "NAMED");
	CHECK(is_value(&w, "a b"));
	set("NAMED", SECRET_COMMAND, "echo tok; exit 3");
	ask(&w, "NAMED");
	CHECK(w.r < 0);
	CHECK(strstr(w.e.msg, "tok") == NULL);
	set("NAMED", SECRET_COMMAND, "true");
	ask(&w, "NAMED");
	CHECK(w.r < 0);
	set("NAMED", SECRET_COMMAND, "cat /dev/zero");
	ask(&w, "NAMED");
	CHECK(w.r < 0);
	set("NAMED", SECRET_COMMAND, "echo x; sleep 1000 &"); /* holds the pipe */
	ask(&w, "NAMED");
	CHECK(is_value(&w, "x"));
}

BROKER_TEST(a_slow_command_holds_nobody_up)
{
	struct wish slow, row;
	char line[160];

	snprintf(line, sizeof(line), "cat '%s/go'", home_path);
	CHECK_EQ(mkfifoat(st.home_fd, "go", 0600), 0);
	set("NAMED", SECRET_COMMAND, line);
	wish_init(&slow);
	broker_ask_secret(broker, &slow.call, "NAMED");
	wish_init(&row);
	broker_record(broker, &row.call, &(struct audit_row){.kind = "connect"});
	waiting = 1;
	CHECK_EQ(ev_run(ev), 0);
	CHECK_EQ(row.answers, 1);
	CHECK_EQ(slow.answers, 0);
	waiting = 1;
	autoclose int fd = openat(st.home_fd, "go", O_WRONLY | O_CLOEXEC);
	CHECK_EQ(write(fd, "late", 4), 4);
	fd_close(&fd);
	CHECK_EQ(ev_run(ev), 0);
	CHECK(is_value(&slow, "late"));
}

/* However many ask at once, one process gives the value to all of them. */
BROKER_TEST(one_command_for_all_who_wait)
{
	struct wish many[40];
	char line[320], text[64] = "";

	CHECK_EQ(mkfifoat(st.home_fd, "go", 0600), 0);
	snprintf(line, sizeof(line), "echo x >> '%s/runs'; cat '%s/go'", home_path, home_path);
	set("NAMED", SECRET_COMMAND, line);
	for (unsigned i = 0; i < 40; i++) {
		wish_init(&many[i]);
		broker_ask_secret(broker, &many[i].call, "NAMED");
	}
	autoclose int fd = openat(st.home_fd, "go", O_WRONLY | O_CLOEXEC);
	struct wish row;
	wish_init(&row);
	broker_record(broker, &row.call, &(struct audit_row){.kind = "connect"});
	waiting = 1;
	CHECK_EQ(ev_run(ev), 0); /* all were heard */
	CHECK_EQ(write(fd, "late", 4), 4);
	fd_close(&fd);
	waiting = 40;
	CHECK_EQ(ev_run(ev), 0);
	for (unsigned i = 0; i < 40; i++)
		CHECK(is_value(&many[i], "late"));
	autoclose int runs = openat(st.home_fd, "runs", O_RDONLY | O_CLOEXEC);
	CHECK_EQ(read(runs, text, sizeof(text)), 2);
}

/* Until it is set again; a failure is not kept. */
BROKER_TEST(what_a_command_printed_is_kept)
{
	char line[320];
	struct wish w;

	snprintf(line, sizeof(line), "cd '%s' && test -e good && echo x >> runs && wc -c < runs",
		 home_path);
	CHECK_EQ(secret_set_command(&st, "NAMED", line, 3600000, &e), 0);
	ask(&w, "NAMED");
	CHECK(w.r < 0);
	CHECK_EQ(fd_write_file(st.home_fd, "good", "", 0, 0600, false), 0);
	for (unsigned i = 0; i < 3; i++) {
		ask(&w, "NAMED");
		CHECK(is_value(&w, "2"));
	}
	CHECK_EQ(secret_set_command(&st, "NAMED", line, 3600000, &e), 0);
	ask(&w, "NAMED");
	CHECK(is_value(&w, "4"));
	CHECK_EQ(secret_remove(&st, "NAMED", &e), 0);
	ask(&w, "NAMED");
	CHECK(w.r < 0);
	CHECK_EQ(secret_set_command(&st, "NAMED", line, 0, &e), 0);
	ask(&w, "NAMED");
	CHECK(is_value(&w, "6"));
	ask(&w, "NAMED");
	CHECK(is_value(&w, "8"));
}

static uint64_t rows_verified(void)
{
	struct audit_report report;

	CHECK_EQ(audit_verify(&st, "box", &report, &e), 0);
	return report.rows;
}

BROKER_TEST(rows_are_there_when_they_are_answered)
{
	struct wish w[100];

	for (int i = 0; i < 100; i++) {
		wish_init(&w[i]);
		broker_record(broker, &w[i].call,
			      &(struct audit_row){.kind = "connect", .host = "a.test"});
	}
	CHECK_EQ(ev_run(ev), 0);
	for (int i = 0; i < 100; i++)
		CHECK_EQ(w[i].call.seq, (uint64_t)i + 1);
	CHECK_EQ(rows_verified(), 100);
}

static void record_one(void)
{
	struct wish w;

	wish_init(&w);
	broker_record(broker, &w.call, &(struct audit_row){.kind = "connect", .host = "a.test"});
	CHECK_EQ(ev_run(ev), 0);
	CHECK_EQ(w.r, 0);
}

/* Somebody holds the list of all logs, as a busy disk would hold a sync: until it is let go the
 * first sync cannot end. Returns when it waits. */
static int hold_list(void)
{
	autoclose int home = open(home_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int list;

	CHECK(home >= 0);
	record_one(); /* the log's directory is there now */
	CHECK(mkdirat(home, "audit/list", 0700) == 0 || errno == EEXIST);
	list = openat(home, "audit/list", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(list >= 0);
	CHECK_EQ(flock(list, LOCK_EX), 0);
	/* An empty head is the last that it makes before it waits for the list. */
	while (faccessat(home, "audit/boxes/box.7/head", F_OK, 0) < 0)
		record_one();
	return list;
}

/* Rows are written and answered all the same. */
TEST(rows_do_not_wait_for_a_sync)
{
	int list;

	set_up();
	list = hold_list();
	for (int i = 0; i < 100; i++)
		record_one();
	close(list);
	tear_down();
	CHECK(rows_verified() > 100);
}

static int deaths;

static void is_gone(void *arg)
{
	deaths++;
	ev_quit(ev);
}

static pid_t only_child(pid_t of)
{
	char path[64], text[32] = "";
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)of, (int)of);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0 && fd_read_full(fd, text, sizeof(text) - 1) > 0);
	close(fd);
	return (pid_t)strtol(text, NULL, 10);
}

/* It ends the door, and what was to be saved with it is saved by the broker. */
TEST(a_sync_that_is_killed_gives_no_budget_back)
{
	static const char used_text[] = "1 2 3 rule 1\n";
	struct used used = {0};
	int list;

	set_up();
	broker_watch(broker, is_gone, NULL, NULL);
	broker_say_used(broker, used_text, sizeof(used_text) - 1);
	list = hold_list();
	CHECK_EQ(kill(only_child(only_child(getpid())), SIGKILL), 0);
	close(list);
	while (!deaths)
		CHECK_EQ(ev_run(ev), 0);
	broker_free(broker);
	ev_free(ev);
	CHECK_EQ(used_load(&used, box_fd), 0);
	CHECK_EQ(used.count, 1);
	used_done(&used);
	CHECK(rows_verified() > 0);
}

TEST(rows_that_nobody_waits_for_are_written_too)
{
	set_up();
	for (int i = 0; i < 3000; i++)
		broker_record(broker, NULL,
			      &(struct audit_row){.kind = "connect", .host = "a.test"});
	tear_down();
	CHECK_EQ(rows_verified(), 3000);
}

static int rooms;

static void on_room(void *arg)
{
	rooms++;
	if (!broker_is_busy(broker))
		ev_quit(ev);
}

/* What a box that is denied thousands of long requests comes to: whoever asks first whether the
 * broker is busy, and then waits, never fills the list. */
TEST(a_busy_broker_says_so_and_when_there_is_room)
{
	/* More than may be written at once: the broker rests, and the list fills. */
	const unsigned count = (AUDIT_BURST + AUDIT_BURST / 64) / AUDIT_TEXT_MAX;
	char path[16000];

	memset(path, 'a', sizeof(path) - 1);
	path[sizeof(path) - 1] = 0;
	set_up();
	broker_watch(broker, is_gone, on_room, NULL);
	CHECK(!broker_is_busy(broker));
	for (unsigned i = 0; i < count && !deaths; i++) {
		if (broker_is_busy(broker))
			CHECK_EQ(ev_run(ev), 0);
		broker_record(
			broker, NULL,
			&(struct audit_row){
				.kind = "request", .verdict = "deny", .port = i + 1, .path = path});
	}
	CHECK_EQ(deaths, 0);
	CHECK(rooms > 0);
	tear_down();
	CHECK_EQ(rows_verified(), count);
}

/* For the whole program. In the broker of the test below the clock stands still. */
static pid_t still_after;

int clock_gettime(clockid_t id, struct timespec *ret)
{
	if (still_after == 0 || getpid() == still_after || id != CLOCK_MONOTONIC)
		return (int)syscall(SYS_clock_gettime, id, ret);
	*ret = (struct timespec){.tv_sec = 1000};
	return 0;
}

/* A door that ends while its broker rests: it is killed if it takes long, and what it still has to
 * say would be gone with it, however much it is. Here a rest never ends, as the broker's clock
 * stands still. */
TEST(the_last_rows_of_a_flood_do_not_wait)
{
	const unsigned burst = AUDIT_BURST / (AUDIT_TEXT_MAX + 512), more = 3500;
	char path[AUDIT_TEXT_MAX];

	memset(path, 'a', sizeof(path) - 1);
	path[sizeof(path) - 1] = 0;
	still_after = getpid();
	set_up();
	broker_watch(broker, NULL, on_room, NULL);
	for (unsigned i = 0; i < burst + more; i++) {
		if (i < burst && broker_is_busy(broker))
			CHECK_EQ(ev_run(ev), 0);
		broker_record(
			broker, NULL,
			&(struct audit_row){
				.kind = "request", .verdict = "deny", .port = i + 1, .path = path});
	}
	tear_down();
	CHECK_EQ(rows_verified(), burst + more);
}

static void on_gone(void *arg)
{
	(*(int *)arg)++;
	ev_quit(ev);
}

TEST(a_broker_that_dies_is_told)
{
	struct wish w;
	int gone = 0;

	set_up();
	/* The record is in the way: the broker cannot begin. */
	tear_down();
	CHECK_EQ(ev_new(&ev), 0);
	config.box = "missing";
	CHECK_EQ(broker_start(&broker, ev, &config, &e), 0);
	broker_watch(broker, on_gone, NULL, &gone);
	wish_init(&w);
	waiting = 2; /* on_gone ends the loop */
	broker_ask(broker, &w.call, BROKER_POLICY);
	CHECK_EQ(ev_run(ev), 0);
	CHECK_EQ(gone, 1);
	CHECK_EQ(w.answers, 1);
	CHECK_EQ(w.r, -EPIPE);
	broker_free(broker);
	ev_free(ev);
}

BROKER_TEST(cancelled_is_not_told)
{
	struct wish a, b;

	set("NAMED", SECRET_VALUE, "one");
	wish_init(&a);
	broker_ask_secret(broker, &a.call, "NAMED");
	broker_cancel(broker, &a.call);
	broker_cancel(broker, &a.call);
	waiting--;
	ask(&b, "NAMED");
	CHECK(is_value(&b, "one"));
	CHECK_EQ(a.answers, 0);
}

static uint64_t counted, shown;

static int count_row(void *arg, const char *box, const struct audit_row *row)
{
	if (strcmp(row->kind, "connect") == 0 || strcmp(row->kind, "name") == 0) {
		counted += row->count ? row->count : 1;
		shown++;
	}
	return 0;
}

/* One host again and again, among others that are refused once. */
TEST(a_loop_of_refusals_is_few_rows_and_none_is_lost)
{
	struct audit_filter f = {.box = "box"};
	char host[32];

	set_up();
	for (int i = 0; i < 2000; i++) {
		snprintf(host, sizeof(host), "h%d.test", i % 20 ? 0 : i);
		broker_record(broker, NULL,
			      &(struct audit_row){.kind = i % 2 ? "name" : "connect",
						  .time_ms = (uint64_t)i + 1,
						  .host = host,
						  .verdict = "deny",
						  .reason = "no rule"});
	}
	tear_down();
	CHECK(rows_verified() > 0);
	CHECK_EQ(audit_read(&st, &f, count_row, NULL, &e), 0);
	CHECK_EQ(counted, 2000);
	CHECK(shown >= 101 && shown <= 110);
}

/* How quickly a box can push its own history out; THREAT_MODEL.md says half an hour. */
TEST(a_whole_log_takes_half_an_hour)
{
	uint64_t kept = (uint64_t)(AUDIT_SEGMENTS - 1) * AUDIT_SEGMENT_MAX;

	/* Its burst, and the one at the end of its door. */
	CHECK((kept - 2 * AUDIT_BURST) / AUDIT_RATE >= 1800);
	CHECK(AUDIT_RATE >= 200 * 600 && AUDIT_BURST / 600 >= 6900); /* what a busy box needs */
}

/* A box that floods gets AUDIT_RATE after its burst, and a quiet one its burst again. */
TEST(rows_have_a_rate)
{
	struct row_rate rate;
	uint64_t now = 1000, wrote = 0, rest;

	row_rate_init(&rate, now);
	while ((rest = row_rate_pay(&rate, 1000, now)) == 0)
		wrote += 1000;
	CHECK(wrote <= AUDIT_BURST && wrote > AUDIT_BURST - 2000);
	for (wrote = 0; now < 61000; now += rest) {
		wrote += 1000;
		rest = row_rate_pay(&rate, 1000, now);
	}
	CHECK(wrote < 61ull * AUDIT_RATE && wrote > 55ull * AUDIT_RATE);
	for (wrote = 0, now += 3600000; row_rate_pay(&rate, 1000, now) == 0;)
		wrote += 1000;
	CHECK(wrote <= AUDIT_BURST && wrote > AUDIT_BURST - 2000);
	CHECK_EQ(row_rate_pay(&rate, 0, now - 1000) > 0, 1); /* a clock that goes back */
}

/* Names that are looked up again and again, and what was let through. */
TEST(names_fold_and_requests_do_not)
{
	struct audit_filter f = {.box = "box"};

	set_up();
	for (int i = 0; i < 50; i++) {
		broker_record(
			broker, NULL,
			&(struct audit_row){.kind = "name", .host = "a.test", .verdict = "allow"});
		broker_record(broker, NULL,
			      &(struct audit_row){
				      .kind = "connect", .host = "a.test", .verdict = "allow"});
	}
	tear_down();
	CHECK_EQ(audit_read(&st, &f, count_row, NULL, &e), 0);
	CHECK_EQ(counted, 100);
	CHECK_EQ(shown, 52);
}

TAP_MAIN
