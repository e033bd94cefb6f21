/* The host's side of copies, against a box that lies: whatever it sends, nothing lands outside. */
#include "core_peer.h"
#include "tap.h"

#include "base/limits.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

static char top[64], out[96], canary[96];

/* A directory for the copy, and beside it a file that must stay as it is. */
static void make_place(void)
{
	int fd;

	snprintf(top, sizeof(top), "/tmp/cove-test-XXXXXX");
	CHECK(mkdtemp(top));
	snprintf(out, sizeof(out), "%s/out", top);
	snprintf(canary, sizeof(canary), "%s/canary", top);
	fd = open(canary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	CHECK_EQ(write(fd, "safe", 4), 4);
	close(fd);
}

static void read_back(const char *path, char *ret, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	ssize_t n;

	CHECK(fd >= 0);
	n = read(fd, ret, size - 1);
	CHECK(n >= 0);
	ret[n] = 0;
	close(fd);
}

static void check_canary(void)
{
	char text[16];

	read_back(canary, text, sizeof(text));
	CHECK_STR(text, "safe");
}

static void remove_place(void)
{
	char cmd[128];

	pid_t pid = fork();

	if (pid == 0) {
		execl("/bin/rm", "rm", "-rf", top, NULL);
		_exit(127);
	}
	snprintf(cmd, sizeof(cmd), "%s", top);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

static void below(char *ret, size_t size, const char *name)
{
	snprintf(ret, size, "%s/%s", out, name);
}

/* What a script sends for a GET: entries of a directory, "type path [target or content]". */
struct sent {
	char type;
	const char *path, *text;
};

static void send_tree(struct peer *p, void *arg)
{
	uint32_t id = peer_expect(p, WIRE_FILE).id;

	for (const struct sent *s = arg; s->type; s++) {
		peer_entry(p, id, s->type, s->path, s->type != 'f' ? s->text : NULL);
		if (s->type != 'f')
			continue;
		peer_data(p, id, WIRE_STDOUT, s->text, strlen(s->text));
		peer_send(p, WIRE_EOF, WIRE_STDOUT, id);
	}
	peer_send(p, WIRE_OK, 0, id);
	peer_flush(p);
	peer_expect(p, WIRE_SAY); /* never comes: waits for the end */
}

static int get(const struct sent *tree, struct cove_error *err)
{
	struct cove_box *box = peer_box(send_tree, (void *)(uintptr_t)tree);
	int r;

	r = cove_get(box, "/data", out, NULL, err);
	cove_box_free(box);
	return r;
}

TEST(tree_arrives)
{
	static const struct sent tree[] = {{'d', "", NULL},
					   {'f', "a", "one"},
					   {'d', "sub", NULL},
					   {'f', "sub/b", "two"},
					   {'l', "link", "/etc/passwd"},
					   {'o', "dev", NULL},
					   {0}};
	char path[128], text[32];
	struct cove_error err;
	struct stat st;

	make_place();
	CHECK_EQ(get(tree, &err), 1); /* one entry was left out */
	below(path, sizeof(path), "a");
	read_back(path, text, sizeof(text));
	CHECK_STR(text, "one");
	CHECK_EQ(lstat(path, &st), 0);
	CHECK_EQ(st.st_mode & 07000, 0);
	below(path, sizeof(path), "sub/b");
	read_back(path, text, sizeof(text));
	CHECK_STR(text, "two");
	below(path, sizeof(path), "link");
	CHECK_EQ(lstat(path, &st), 0);
	CHECK(S_ISLNK(st.st_mode));
	remove_place();
}

TEST(file_arrives_under_the_given_name)
{
	static const struct sent tree[] = {{'f', "", "content"}, {0}};
	struct cove_error err;
	char text[32];

	make_place();
	CHECK_EQ(get(tree, &err), 0);
	read_back(out, text, sizeof(text));
	CHECK_STR(text, "content");
	remove_place();
}

TEST(file_goes_inside_an_existing_directory)
{
	static const struct sent tree[] = {{'f', "", "content"}, {0}};
	struct cove_error err;
	char path[128], text[32];

	make_place();
	CHECK_EQ(mkdir(out, 0700), 0);
	CHECK_EQ(get(tree, &err), 0);
	below(path, sizeof(path), "data");
	read_back(path, text, sizeof(text));
	CHECK_STR(text, "content");
	remove_place();
}

TEST(a_planted_link_is_replaced_not_followed)
{
	static const struct sent tree[] = {{'f', "", "evil"}, {0}};
	struct cove_error err;
	char path[128], text[32];

	make_place();
	CHECK_EQ(mkdir(out, 0700), 0);
	below(path, sizeof(path), "data");
	CHECK_EQ(symlink(canary, path), 0);
	CHECK_EQ(get(tree, &err), 0);
	read_back(path, text, sizeof(text));
	CHECK_STR(text, "evil");
	check_canary();
	remove_place();
}

/* Each is a tree whose last entry must be refused. */
TEST(lies_are_refused)
{
	static const struct sent dotdot[] = {{'d', "", NULL}, {'f', "../canary", "evil"}, {0}};
	static const struct sent inner[] = {
		{'d', "", NULL}, {'d', "s", NULL}, {'f', "s/../../canary", "x"}, {0}};
	static const struct sent absolute[] = {
		{'d', "", NULL}, {'f', "/tmp/cove-evil", "evil"}, {0}};
	static const struct sent through[] = {
		{'d', "", NULL}, {'l', "up", ".."}, {'f', "up/canary", "evil"}, {0}};
	static const struct sent dir_through[] = {
		{'d', "", NULL}, {'l', "up", ".."}, {'d', "up", NULL}, {0}};
	static const struct sent empty[] = {{'d', "", NULL}, {'f', "a//b", "evil"}, {0}};
	static const struct sent dot[] = {{'d', "", NULL}, {'f', "./a", "evil"}, {0}};
	static const struct sent no_root[] = {{'f', "a", "evil"}, {0}};
	static const struct sent twice[] = {{'d', "", NULL}, {'d', "", NULL}, {0}};
	static const struct sent no_target[] = {{'d', "", NULL}, {'l', "a", NULL}, {0}};
	static const struct sent orphan[] = {{'f', "", "x"}, {'f', "a", "evil"}, {0}};
	static const struct sent hard_out[] = {{'d', "", NULL}, {'h', "a", "../canary"}, {0}};
	static const struct sent hard_other[] = {
		{'d', "", NULL}, {'f', "a", "x"}, {'h', "b", "a"}, {0}}; /* it had one name */
	static const struct sent hard_through[] = {
		{'d', "", NULL}, {'l', "up", ".."}, {'h', "b", "up/canary"}, {0}};
	static const struct sent hard_bare[] = {{'d', "", NULL}, {'h', "b", NULL}, {0}};
	static const struct sent hard_root[] = {{'h', "", "a"}, {0}};
	static const struct sent hole[] = {{'d', "", NULL}, {'z', "", NULL}, {0}};
	static const struct sent *const trees[] = {
		dotdot,	    inner,	  absolute,  through,	dir_through, empty,
		dot,	    no_root,	  twice,     no_target, orphan,	     hard_out,
		hard_other, hard_through, hard_bare, hard_root, hole};

	for (size_t i = 0; i < sizeof(trees) / sizeof(trees[0]); i++) {
		struct cove_error err;

		make_place();
		CHECK(get(trees[i], &err) < 0);
		CHECK(err.message[0]);
		check_canary();
		CHECK(access("/tmp/cove-evil", F_OK) < 0);
		remove_place();
	}
}

static void send_exact(struct peer *p, void *arg)
{
	const struct wire_entry dir = {.type = 'd', .path = "", .mode = 0500, .mtime_ns = 1000};
	const struct wire_entry file = {.type = 'f',
					.path = "a",
					.mode = 06777,
					.mtime_ns = 1500000000000000001u,
					.links = 2};
	const struct wire_entry hole = {.type = 'z', .path = "", .size = *(uint64_t *)arg};
	const struct wire_entry name = {.type = 'h', .path = "b", .target = "a"};
	const struct wire_entry left = {
		.type = 'x', .path = "c\033[31m", .target = "no\n[cove] forged"};
	uint32_t id = peer_expect(p, WIRE_FILE).id;

	CHECK_EQ(wire_entry_encode(&p->out, id, 0, &dir), 0);
	CHECK_EQ(wire_entry_encode(&p->out, id, 0, &file), 0);
	CHECK_EQ(wire_entry_encode(&p->out, id, 0, &hole), 0);
	peer_data(p, id, WIRE_STDOUT, "x", 1);
	CHECK_EQ(wire_entry_encode(&p->out, id, 0, &hole), 0);
	peer_send(p, WIRE_EOF, WIRE_STDOUT, id);
	CHECK_EQ(wire_entry_encode(&p->out, id, 0, &name), 0);
	CHECK_EQ(wire_entry_encode(&p->out, id, 0, &left), 0);
	peer_send(p, WIRE_OK, 0, id);
	peer_flush(p);
	peer_expect(p, WIRE_SAY);
}

static void count_skipped(void *arg, const char *path, const char *why)
{
	CHECK(!strchr(path, '\033'));
	CHECK(!strchr(why, '\n'));
	++*(unsigned *)arg;
}

TEST(modes_times_holes_and_names_are_kept)
{
	unsigned skipped = 0;
	struct cove_copy how = {.size = sizeof(how), .on_skipped = count_skipped, .arg = &skipped};
	uint64_t size = 1 << 20;
	struct cove_error err;
	struct cove_box *box;
	struct stat a, b, d;
	char path[128];

	make_place();
	umask(022);
	box = peer_box(send_exact, &size);
	CHECK_EQ(cove_get(box, "/data", out, &how, &err), 0);
	CHECK_EQ(skipped, 1);
	below(path, sizeof(path), "a");
	CHECK_EQ(lstat(path, &a), 0);
	below(path, sizeof(path), "b");
	CHECK_EQ(lstat(path, &b), 0);
	CHECK_EQ(stat(out, &d), 0);
	CHECK_EQ(a.st_ino, b.st_ino);
	CHECK_EQ(a.st_size, 2 * size + 1);
	CHECK(a.st_blocks < 64);
	CHECK_EQ(a.st_mode & 07777, 0755); /* no setuid, and the umask keeps others from writing */
	CHECK_EQ(a.st_mtim.tv_sec, 1500000000);
	CHECK_EQ(a.st_mtim.tv_nsec, 1);
	CHECK_EQ(d.st_mode & 07777, 0500);
	CHECK_EQ(d.st_mtim.tv_nsec, 1000);
	CHECK_EQ(chmod(out, 0700), 0);
	cove_box_free(box);
	remove_place();
}

TEST(an_impossible_hole_is_refused)
{
	static uint64_t sizes[] = {UINT64_MAX, INT64_MAX, (uint64_t)INT64_MAX + 1};
	struct cove_error err;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct cove_box *box;
		char path[128];

		make_place();
		box = peer_box(send_exact, &sizes[i]);
		CHECK(cove_get(box, "/data", out, NULL, &err) < 0);
		below(path, sizeof(path), "a");
		CHECK(access(path, F_OK) < 0);
		CHECK_EQ(chmod(out, 0700), 0);
		cove_box_free(box);
		remove_place();
	}
}

static void send_error(struct peer *p, void *arg)
{
	uint32_t id = peer_expect(p, WIRE_FILE).id;

	peer_error(p, id, EACCES, "cannot read \033[31m'x'\n[cove] forged");
	peer_flush(p);
	peer_expect(p, WIRE_SAY);
}

TEST(the_boxes_words_are_made_safe)
{
	struct cove_box *box;
	struct cove_error err;

	make_place();
	box = peer_box(send_error, NULL);
	CHECK_EQ(cove_get(box, "/data", out, NULL, &err), -EACCES);
	CHECK_EQ(err.kind, COVE_DENIED);
	CHECK(!strchr(err.message, '\n'));
	CHECK(!strchr(err.message, '\033'));
	/* The connection is fine: another request may be made on it. */
	CHECK(box->idle);
	cove_box_free(box);
	remove_place();
}

static void send_forever(struct peer *p, void *arg)
{
	static char block[WIRE_DATA_MAX];
	uint32_t id = peer_expect(p, WIRE_FILE).id;

	peer_entry(p, id, 'f', "", NULL);
	for (;;) {
		peer_data(p, id, WIRE_STDOUT, block, sizeof(block));
		peer_flush(p);
	}
}

/* A limit on the size of files stands for a full disk. */
TEST(an_endless_file_ends)
{
	struct rlimit limit = {.rlim_cur = 3 << 20, .rlim_max = 3 << 20};
	struct cove_box *box;
	struct cove_error err;
	struct stat st;

	make_place();
	box = peer_box(send_forever, NULL);
	signal(SIGXFSZ, SIG_IGN);
	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
	CHECK(cove_get(box, "/data", out, NULL, &err) < 0);
	/* Nothing half-written stays. */
	CHECK(stat(out, &st) < 0);
	cove_box_free(box);
	remove_place();
}

TEST(get_data_stops_at_its_maximum)
{
	struct cove_box *box = peer_box(send_forever, NULL);
	struct cove_error err;
	void *data;
	size_t len;

	CHECK_EQ(cove_get_data(box, "/data", 100000, &data, &len, &err), -EFBIG);
	CHECK_EQ(err.kind, COVE_LIMIT);
	cove_box_free(box);
}

static void list_lies(struct peer *p, void *arg)
{
	uint32_t id = peer_expect(p, WIRE_FILE).id;

	peer_entry(p, id, 'f', "fine", NULL);
	peer_entry(p, id, 'f', arg, NULL);
	peer_send(p, WIRE_OK, 0, id);
	peer_flush(p);
	peer_expect(p, WIRE_SAY);
}

TEST(listed_names_are_names)
{
	static const char *const bad[] = {"..", "a/b", "", ".", "/x"};
	struct cove_file_info *list;
	struct cove_error err;
	struct cove_box *box;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		box = peer_box(list_lies, (void *)(uintptr_t)bad[i]);
		CHECK(cove_list_dir(box, "/", &list, &err) < 0);
		cove_box_free(box);
	}
	box = peer_box(list_lies, (void *)"good");
	CHECK_EQ(cove_list_dir(box, "/", &list, &err), 2);
	CHECK_STR(list[1].name, "good");
	cove_file_info_free(list, 2);
	cove_box_free(box);
}

/* Takes a put, giving credit in halves, and fails it half-way when arg is set. */
static void take_put(struct peer *p, void *arg)
{
	uint32_t id = peer_expect(p, WIRE_FILE).id;
	struct wire_credit credit = {.bytes = WIRE_WINDOW};

	peer_expect(p, WIRE_ENTRY);
	if (arg) {
		peer_error(p, id, ENOSPC, "the box is full");
	} else {
		CHECK_EQ(wire_credit_encode(&p->out, id, WIRE_STDIN, &credit), 0);
		CHECK_EQ(wire_credit_encode(&p->out, id, WIRE_STDIN, &credit), 0);
		peer_flush(p);
		peer_expect(p, WIRE_EOF);
		peer_expect(p, WIRE_ENTRY);
		peer_send(p, WIRE_OK, 0, id);
	}
	peer_flush(p);
	peer_expect(p, WIRE_SAY);
}

TEST(put_waits_for_credit_and_hears_errors)
{
	static char data[3 * WIRE_WINDOW - 1];
	struct cove_error err;
	struct cove_box *box;

	box = peer_box(take_put, NULL);
	CHECK_EQ(cove_put_data(box, "/x", data, sizeof(data), 0644, &err), 0);
	cove_box_free(box);
	box = peer_box(take_put, (void *)"");
	CHECK_EQ(cove_put_data(box, "/x", data, sizeof(data), 0644, &err), -ENOSPC);
	CHECK_STR(err.message, "the box is full");
	cove_box_free(box);
}

/* A caller whose open() failed does not get an empty file in the box. */
TEST(put_of_no_descriptor_is_an_error)
{
	struct cove_box *box = peer_box(take_put, NULL);
	struct cove_error err;

	CHECK_EQ(cove_put_fd(box, -1, "/x", 0644, NULL, &err), -EBADF);
	cove_box_free(box);
}

TAP_MAIN
