/* The catalogue: its operations, every older version of it, and what the directories say against
 * it. */
#include "base/fd.h"
#include "db/sql.h"
#include "store/image.h"
#include "tap.h"

#include <fcntl.h>
#include <sys/stat.h>

static char home[64];
static struct state state;

static void remove_home(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		execl("/bin/rm", "rm", "-rf", home, NULL);
		_exit(127);
	}
	waitpid(pid, NULL, 0);
}

static void make_home(void)
{
	snprintf(home, sizeof(home), "/tmp/cove-test-XXXXXX");
	CHECK(mkdtemp(home));
	CHECK_EQ(state_open(&state, home, true, NULL), 0);
	tap_state.at_end = remove_home;
}

static struct db *open_db(void)
{
	struct err e = {0};
	struct db *db = NULL;

	if (db_open(&state, &db, &e) < 0) {
		printf("# %s\n", e.msg);
		CHECK(0);
	}
	return db;
}

static const char *id_of(char c)
{
	static char ids[4][LAYER_ID_SIZE];
	static unsigned n;
	char *id = ids[n++ % 4];

	memset(id, c, LAYER_ID_SIZE - 1);
	return id;
}

/* A layer on disk, as small as it can be. */
static void put_layer(char c, uint64_t bytes)
{
	struct ids ids = {0};
	struct layer_new l = LAYER_NEW_NONE;
	struct layer_meta meta = {.kind = LAYER_IMAGE, .bytes = bytes, .files = 1, .created_ms = 9};

	CHECK_EQ(ids_detect(&ids, NULL, 0, NULL), 0);
	CHECK_EQ(layers_new(&state, &l, NULL), 0);
	CHECK_EQ(mkdirat(l.fd, "rootfs", 0755), 0);
	CHECK_EQ(layers_place(&state, &ids, &l, id_of(c), &meta, NULL), 0);
}

static void put_image(const char *name, const char *layers)
{
	struct image im = {.layer_count = strlen(layers), .created_ms = 5};
	char ids[4][LAYER_ID_SIZE] = {{0}};

	snprintf(im.name, sizeof(im.name), "%s", name);
	for (size_t i = 0; i < im.layer_count; i++) {
		memset(ids[i], layers[i], LAYER_ID_SIZE - 1);
		im.layers[i] = ids[i];
	}
	CHECK_EQ(image_write(&state, &im, NULL), 0);
}

static uint64_t refs_of(struct db *db, char c)
{
	struct db_layer l = {.refs = 99};

	CHECK_EQ(db_layer_find(db, id_of(c), &l, NULL), 1);
	return l.refs;
}

TEST(it_is_filled_from_the_directories)
{
	struct db_layer l;
	struct db *db;

	make_home();
	put_layer('a', 100);
	put_layer('b', 200);
	put_image("one", "ab");
	put_image("two", "a");
	db = open_db();
	CHECK(!db_in_memory(db));
	CHECK_EQ(refs_of(db, 'a'), 2);
	CHECK_EQ(refs_of(db, 'b'), 1);
	CHECK_EQ(db_layer_find(db, id_of('b'), &l, NULL), 1);
	CHECK_EQ(l.meta.bytes, 200);
	CHECK_EQ(db_layer_find(db, id_of('c'), &l, NULL), 0);
	db_close(db);
}

TEST(what_changed_meanwhile_is_seen)
{
	struct db_layer l;
	char gone[32];
	struct db *db;

	make_home();
	put_layer('a', 100);
	put_image("one", "a");
	db_close(open_db());
	put_layer('b', 200);
	put_image("two", "ab");
	db = open_db();
	CHECK_EQ(refs_of(db, 'a'), 2);
	CHECK_EQ(refs_of(db, 'b'), 1);
	db_close(db);
	CHECK_EQ(unlinkat(state.images_fd, "two", 0), 0);
	CHECK_EQ(layers_trash(&state, id_of('b'), gone), 0);
	db = open_db();
	CHECK_EQ(refs_of(db, 'a'), 1);
	CHECK_EQ(db_layer_find(db, id_of('b'), &l, NULL), 0);
	db_close(db);
}

/* Old enough to be trusted. */
static void make_old(void)
{
	const struct timespec old[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
	static const char *const dirs[] = {"layers", "images", "workspaces"};

	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
		CHECK_EQ(utimensat(state.home_fd, dirs[i], old, 0), 0);
}

/* Old enough to be trusted, so that the second opening reads nothing: what is wrong in the tables
 * then stays so, and shows it. */
TEST(what_did_not_change_is_not_read)
{
	struct db_layer l;
	struct db *db;

	make_home();
	put_layer('a', 100);
	make_old();
	db = open_db();
	CHECK_EQ(db_layer_remove(db, id_of('a'), NULL), 0);
	db_close(db);
	db = open_db();
	CHECK_EQ(db_layer_find(db, id_of('a'), &l, NULL), 0);
	db_close(db);
	put_layer('b', 1);
	db = open_db();
	CHECK_EQ(db_layer_find(db, id_of('a'), &l, NULL), 1);
	db_close(db);
}

TEST(owners_and_transactions)
{
	const char *layers[] = {"x", "y"};
	struct db_owner got, put = {.kind = DB_SNAPSHOT,
				    .name = "s",
				    .of = "box",
				    .stamp = 7,
				    .layers = layers,
				    .layer_count = 2};
	struct db *db;

	make_home();
	db = open_db();
	CHECK_EQ(db_owner_put(db, &put, NULL), 0);
	CHECK_EQ(db_owner_find(db, DB_SNAPSHOT, "s", &got, NULL), 1);
	CHECK_STR(got.of, "box");
	CHECK_EQ(got.stamp, 7);
	CHECK_EQ(db_owner_find(db, DB_IMAGE, "s", &got, NULL), 0);
	CHECK_EQ(db_begin(db, NULL), 0);
	CHECK_EQ(db_owner_remove(db, DB_SNAPSHOT, "s", NULL), 0);
	CHECK_EQ(db_end(db, -EIO, NULL), -EIO);
	CHECK_EQ(db_owner_find(db, DB_SNAPSHOT, "s", &got, NULL), 1);
	CHECK_EQ(db_owner_remove(db, DB_SNAPSHOT, "s", NULL), 0);
	CHECK_EQ(db_owner_find(db, DB_SNAPSHOT, "s", &got, NULL), 0);
	db_close(db);
}

TEST(the_build_cache)
{
	struct db_cached got, with = {.text = (char[]){"env A=1\n"}}, none = {0};
	struct err e = {0};
	uint64_t n = 0;
	struct db *db;
	char key[DB_CACHE_KEY_MAX + 2] = "";

	make_home();
	put_layer('a', 1);
	db = open_db();
	memcpy(with.layer, id_of('a'), LAYER_ID_SIZE);
	CHECK_EQ(db_cache_put(db, "k1", &with, NULL), 0);
	CHECK_EQ(db_cache_put(db, "k2", &none, NULL), 0);
	memcpy(with.layer, id_of('c'), LAYER_ID_SIZE);
	CHECK_EQ(db_cache_put(db, "k3", &with, NULL), 0);
	CHECK_EQ(db_cache_find(db, "k1", &got, NULL), 1);
	CHECK_STR(got.text, "env A=1\n");
	CHECK_STR(got.layer, id_of('a'));
	free(got.text);
	CHECK_EQ(db_cache_find(db, "k2", &got, NULL), 1);
	CHECK_STR(got.layer, "");
	free(got.text);
	/* There is no such layer. */
	CHECK_EQ(db_cache_find(db, "k3", &got, NULL), 0);
	CHECK_EQ(db_cache_find(db, "k4", &got, NULL), 0);
	memset(key, 'k', sizeof(key) - 1);
	CHECK(db_cache_put(db, key, &none, &e) < 0 && e.kind == ERR_LIMIT);
	CHECK_EQ(db_cache_trim(db, 0, &n, NULL), 0);
	CHECK_EQ(n, 1);
	CHECK_EQ(db_cache_trim(db, UINT64_MAX >> 1, &n, NULL), 0);
	CHECK_EQ(n, 2);
	db_close(db);
}

/* ---- older versions ---- */

static void run_sql(const char *path, const char *text)
{
	sqlite3 *sql = NULL;

	CHECK_EQ(sqlite3_open(path, &sql), SQLITE_OK);
	CHECK_EQ(sqlite3_exec(sql, text, NULL, NULL, NULL), SQLITE_OK);
	CHECK_EQ(sqlite3_close(sql), SQLITE_OK);
}

TEST(every_older_version_is_brought_up_to_date)
{
	const char *data = getenv("COVE_TEST_DATA");
	struct db_cached got;
	struct db_owner owner;

	if (!data)
		SKIP("COVE_TEST_DATA says where the data is");
	for (int version = 1; version <= DB_VERSION; version++) {
		char path[512], name[64];
		char *text = NULL;
		struct db *db;
		size_t len;

		make_home();
		snprintf(path, sizeof(path), "%s/catalogue", data);
		autoclose int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		snprintf(name, sizeof(name), "%d.sql", version);
		CHECK_EQ(fd_read_file(dir, name, 1 << 20, &text, &len), 0);
		snprintf(path, sizeof(path), "%s/cove.db", home);
		run_sql(path, text);
		free(text);
		put_layer('c', 1);
		db = open_db();
		CHECK(!db_in_memory(db));
		/* What no directory has is gone from it, what one has is there. */
		CHECK_EQ(db_owner_find(db, DB_IMAGE, "gone", &owner, NULL), 0);
		CHECK_EQ(refs_of(db, 'c'), 0);
		CHECK_EQ(db_cache_find(db, "step", &got, NULL), version >= 2);
		if (version >= 2) {
			CHECK_STR(got.text, "env A=1");
			free(got.text);
		}
		CHECK_EQ(db_check(db, NULL), 0);
		db_close(db);
		remove_home();
	}
}

TEST(the_tables_of_today_are_those_in_the_data)
{
	const char *data = getenv("COVE_TEST_DATA");
	char path[512], name[64];
	struct stat st;

	if (!data)
		SKIP("COVE_TEST_DATA says where the data is");
	snprintf(name, sizeof(name), "%d.sql", DB_VERSION);
	snprintf(path, sizeof(path), "%s/catalogue/%s", data, name);
	CHECK_EQ(stat(path, &st), 0);
}

TEST(a_newer_one_is_left_alone)
{
	struct db *db;
	char path[128];

	make_home();
	snprintf(path, sizeof(path), "%s/cove.db", home);
	run_sql(path, "CREATE TABLE future (x); PRAGMA user_version = 999");
	put_layer('a', 1);
	db = open_db();
	CHECK(db_in_memory(db));
	CHECK_EQ(refs_of(db, 'a'), 0);
	db_close(db);
	run_sql(path, "INSERT INTO future VALUES (1)");
}

/* ---- damage ---- */

static void overwrite(const char *name, off_t at, size_t n)
{
	autoclose int fd = openat(state.home_fd, name, O_WRONLY | O_CLOEXEC);
	char junk[4096];

	memset(junk, 0x5a, sizeof(junk));
	CHECK(fd >= 0);
	for (; n > 0; n -= n < sizeof(junk) ? n : sizeof(junk), at += (off_t)sizeof(junk))
		CHECK(pwrite(fd, junk, n < sizeof(junk) ? n : sizeof(junk), at) > 0);
}

TEST(a_damaged_one_is_made_anew)
{
	struct db *db;

	make_home();
	put_layer('a', 1);
	put_image("one", "a");
	for (off_t at = 0; at < 40960; at += 2048) {
		db_close(open_db());
		overwrite("cove.db", at, 2048);
		db = open_db();
		/* Damage where nothing was looked at is found by who looks through it all. */
		if (db_check(db, NULL) < 0) {
			db_close(db);
			db = open_db();
			CHECK_EQ(db_check(db, NULL), 0);
		}
		CHECK(!db_in_memory(db));
		CHECK_EQ(refs_of(db, 'a'), 1);
		db_close(db);
	}
	overwrite("cove.db", 0, 40960);
	db = open_db();
	CHECK_EQ(refs_of(db, 'a'), 1);
	db_close(db);
	CHECK_EQ(faccessat(state.home_fd, "cove.db.damaged", F_OK, 0), 0);
}

TEST(one_that_is_missing_or_no_file)
{
	struct db *db;

	make_home();
	put_layer('a', 1);
	db_close(open_db());
	CHECK_EQ(unlinkat(state.home_fd, "cove.db", 0), 0);
	db = open_db();
	CHECK_EQ(refs_of(db, 'a'), 0);
	db_close(db);
	CHECK_EQ(unlinkat(state.home_fd, "cove.db", 0), 0);
	CHECK_EQ(mkdirat(state.home_fd, "cove.db", 0700), 0);
	db = open_db();
	CHECK(db_in_memory(db));
	CHECK_EQ(refs_of(db, 'a'), 0);
	db_close(db);
}

/* Damaged while another process has it: that one goes on, this one works in memory. */
TEST(a_damaged_one_in_use_is_not_replaced)
{
	int to[2], from[2];
	struct db *db;
	pid_t pid;
	char c;

	make_home();
	put_layer('a', 1);
	make_old();
	db_close(open_db()); /* so that nothing is in the log any more */
	CHECK_EQ(pipe2(to, O_CLOEXEC), 0);
	CHECK_EQ(pipe2(from, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		db = open_db();
		CHECK_EQ(write(from[1], "x", 1), 1);
		CHECK_EQ(read(to[0], &c, 1), 1);
		_exit(0);
	}
	CHECK_EQ(read(from[0], &c, 1), 1);
	overwrite("cove.db", 0, 4096);
	db = open_db();
	CHECK(db_in_memory(db));
	CHECK_EQ(refs_of(db, 'a'), 0);
	db_close(db);
	CHECK_EQ(write(to[1], "x", 1), 1);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	db = open_db();
	CHECK(!db_in_memory(db));
	db_close(db);
}

/* Killed in the middle of many transactions, it opens again and is whole. */
TEST(it_opens_again_after_a_kill)
{
	char text[] = "x";
	struct db_cached c = {.text = text};
	struct db *db;

	make_home();
	for (int round = 0; round < 10; round++) {
		int pipes[2];
		char got[8];
		pid_t pid;

		CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
		pid = fork();
		if (pid == 0) {
			db = open_db();
			for (unsigned i = 0;; i++) {
				char key[32];

				snprintf(key, sizeof(key), "%d-%u", round, i % 50);
				if (db_begin(db, NULL) < 0 || db_cache_put(db, key, &c, NULL) < 0 ||
				    db_end(db, 0, NULL) < 0)
					_exit(1);
				if (write(pipes[1], "x", 1) != 1)
					_exit(1);
			}
		}
		close(pipes[1]);
		CHECK_EQ(fd_read_full(pipes[0], got, sizeof(got)), sizeof(got));
		kill(pid, SIGKILL);
		CHECK_EQ(waitpid(pid, NULL, 0), pid);
		close(pipes[0]);
		db = open_db();
		CHECK_EQ(db_check(db, NULL), 0);
		/* What was said to be kept is. */
		for (unsigned i = 0; i < sizeof(got); i++) {
			char key[32];

			snprintf(key, sizeof(key), "%d-%u", round, i);
			c.text = NULL;
			CHECK_EQ(db_cache_find(db, key, &c, NULL), 1);
			free(c.text);
		}
		c.text = text;
		db_close(db);
	}
}

TAP_MAIN
