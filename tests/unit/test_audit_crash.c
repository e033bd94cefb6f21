/*
 * Audit logs after kill -9 and after a loss of power at every moment.
 *
 * How it works: the calls by which the audit log changes the disk are this program's own (openat,
 * write, fsync, ...). They do what they should, and write down what was done. From that list the
 * state of the disk after every call is made again:
 *
 *	kill -9          everything up to that call, and of a write any part
 *	loss of power    files have what they had at their last fsync; of what came later nothing,
 *	                 all, zeros or zeros here and there; directories have the names of their
 *	                 last fsync; later ones came about or did not, each by itself
 *
 * Of every such state: nothing looks tampered with, rows that were promised are there, a new writer
 * goes on, and then all verifies again.
 */
#include "store_home.h"
#include "tap.h"

#include "store/audit.h"

#include <stdarg.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* ---- the disk as it is written down ---- */

enum { NODES = 256, NAMES = 32, OPS = 4096 };

enum op_kind { OP_CREATE, OP_WRITE, OP_CUT, OP_SYNC, OP_RENAME, OP_UNLINK, OP_ACK, OP_DURABLE };

struct op {
	enum op_kind kind;
	unsigned node; /* the file, or the directory of the name */
	char name[64], to[64];
	unsigned child; /* OP_CREATE: what was made */
	bool is_dir;
	char *data; /* owned */
	size_t len; /* also where OP_CUT cuts, and the row of OP_ACK and OP_DURABLE */
};

static struct op ops[OPS];
static unsigned op_count;
static ino_t inodes[NODES];
static unsigned node_count;
static bool is_recording;

/* 0: not one of ours. Numbers may come again when a file is gone: the newest counts. */
static unsigned node_of(int fd)
{
	struct stat s;

	if (!is_recording || fstat(fd, &s) < 0)
		return 0;
	for (unsigned i = node_count; i > 0; i--)
		if (inodes[i] == s.st_ino)
			return i;
	return 0;
}

static unsigned node_add(ino_t inode)
{
	CHECK(node_count + 1 < NODES);
	inodes[++node_count] = inode;
	return node_count;
}

static struct op *op_add(enum op_kind kind, unsigned node)
{
	CHECK(op_count < OPS);
	ops[op_count] = (struct op){.kind = kind, .node = node};
	return &ops[op_count++];
}

static void op_create(unsigned dir, const char *name, int dir_fd, bool is_dir)
{
	struct stat s;
	struct op *op = op_add(OP_CREATE, dir);

	CHECK_EQ(fstatat(dir_fd, name, &s, AT_SYMLINK_NOFOLLOW), 0);
	snprintf(op->name, sizeof(op->name), "%s", name);
	op->child = node_add(s.st_ino);
	op->is_dir = is_dir;
}

/* ---- the calls ---- */

int openat(int dir_fd, const char *path, int flags, ...)
{
	unsigned dir = flags & O_CREAT ? node_of(dir_fd) : 0;
	struct stat s;
	bool is_new = dir && fstatat(dir_fd, path, &s, AT_SYMLINK_NOFOLLOW) < 0;
	va_list args;
	int mode, fd;

	va_start(args, flags);
	mode = flags & O_CREAT ? va_arg(args, int) : 0;
	va_end(args);
	fd = (int)syscall(SYS_openat, dir_fd, path, flags, mode);
	if (fd >= 0 && is_new)
		op_create(dir, path, dir_fd, false);
	else if (fd >= 0 && dir && flags & O_TRUNC)
		op_add(OP_CUT, node_of(fd));
	return fd;
}

ssize_t write(int fd, const void *p, size_t n)
{
	unsigned node = node_of(fd);
	ssize_t r = syscall(SYS_write, fd, p, n);
	struct op *op;

	if (node && r > 0) {
		op = op_add(OP_WRITE, node);
		op->data = malloc((size_t)r);
		memcpy(op->data, p, (size_t)r);
		op->len = (size_t)r;
	}
	return r;
}

int ftruncate(int fd, off_t len)
{
	unsigned node = node_of(fd);

	if (node)
		op_add(OP_CUT, node)->len = (size_t)len;
	return (int)syscall(SYS_ftruncate, fd, len);
}

int fsync(int fd)
{
	unsigned node = node_of(fd);

	if (node)
		op_add(OP_SYNC, node);
	return 0; /* the disk itself is not in this test */
}

int fdatasync(int fd)
{
	return fsync(fd);
}

int mkdirat(int dir_fd, const char *path, mode_t mode)
{
	unsigned dir = node_of(dir_fd);
	int r = (int)syscall(SYS_mkdirat, dir_fd, path, mode);

	if (dir && r == 0)
		op_create(dir, path, dir_fd, true);
	return r;
}

int renameat(int old_fd, const char *old, int new_fd, const char *new)
{
	unsigned dir = node_of(old_fd);
	int r = (int)syscall(SYS_renameat2, old_fd, old, new_fd, new, 0);

	if (dir && r == 0) {
		struct op *op = op_add(OP_RENAME, dir);

		CHECK_EQ(node_of(new_fd), dir);
		snprintf(op->name, sizeof(op->name), "%s", old);
		snprintf(op->to, sizeof(op->to), "%s", new);
	}
	return r;
}

int unlinkat(int dir_fd, const char *path, int flags)
{
	unsigned dir = node_of(dir_fd);
	int r = (int)syscall(SYS_unlinkat, dir_fd, path, flags);

	if (dir && r == 0)
		snprintf(op_add(OP_UNLINK, dir)->name, sizeof(ops[0].name), "%s", path);
	return r;
}

/* ---- the disk made again ---- */

struct names {
	char name[NAMES][64];
	unsigned node[NAMES];
	unsigned count;
};

struct bytes {
	char *data; /* owned */
	size_t len;
};

struct node {
	bool is_dir;
	struct names names, synced_names;
	struct bytes bytes, synced;
};

static struct node nodes[NODES];

static unsigned names_find(const struct names *n, const char *name)
{
	for (unsigned i = 0; i < n->count; i++)
		if (strcmp(n->name[i], name) == 0)
			return n->node[i];
	return 0;
}

static void names_set(struct names *n, const char *name, unsigned node)
{
	unsigned i = 0;

	while (i < n->count && strcmp(n->name[i], name) != 0)
		i++;
	if (node == 0) {
		CHECK(i < n->count);
		n->count--;
		memmove(n->name[i], n->name[n->count], sizeof(n->name[0]));
		n->node[i] = n->node[n->count];
		return;
	}
	CHECK(i < NAMES);
	snprintf(n->name[i], sizeof(n->name[i]), "%s", name);
	n->node[i] = node;
	n->count += i == n->count;
}

static void bytes_set(struct bytes *b, const char *p, size_t n)
{
	char *copy = malloc(n + 1);

	if (n > 0)
		memcpy(copy, p, n);
	free(b->data);
	*b = (struct bytes){copy, n};
}

static void node_sync(struct node *n)
{
	n->synced_names = n->names;
	bytes_set(&n->synced, n->bytes.data, n->bytes.len);
}

static void apply(const struct op *op, size_t part)
{
	struct node *n = &nodes[op->node];
	unsigned moved;

	switch (op->kind) {
	case OP_CREATE:
		names_set(&n->names, op->name, op->child);
		nodes[op->child].is_dir = op->is_dir;
		break;
	case OP_WRITE:
		n->bytes.data = realloc(n->bytes.data, n->bytes.len + part + 1);
		memcpy(n->bytes.data + n->bytes.len, op->data, part);
		n->bytes.len += part;
		break;
	case OP_CUT:
		n->bytes.len = op->len < n->bytes.len ? op->len : n->bytes.len;
		break;
	case OP_SYNC:
		node_sync(n);
		break;
	case OP_RENAME:
		moved = names_find(&n->names, op->name);
		names_set(&n->names, op->name, 0);
		names_set(&n->names, op->to, moved);
		break;
	case OP_UNLINK:
		names_set(&n->names, op->name, 0);
		break;
	default:
		break;
	}
}

static void nodes_reset(const unsigned base)
{
	for (unsigned i = 0; i < NODES; i++) {
		free(nodes[i].bytes.data);
		free(nodes[i].synced.data);
		nodes[i] = (struct node){0};
	}
	/* 1: the home; 2: boxes; 3: boxes/box. */
	for (unsigned i = 1; i <= base; i++)
		nodes[i].is_dir = true;
	names_set(&nodes[1].names, "boxes", 2);
	names_set(&nodes[2].names, "box", 3);
	for (unsigned i = 1; i <= base; i++)
		node_sync(&nodes[i]);
}

/* How a crash leaves what was not synced. */
enum loss { LOSS_NONE, LOSS_ALL, LOSS_ZEROS, LOSS_HOLES, LOSS_COUNT };

struct crash {
	enum loss data;
	bool names_stay; /* names that were not synced came about */
	uint64_t seed;	 /* not 0: every file and every name by itself */
};

static uint64_t dice(struct crash *c)
{
	c->seed ^= c->seed << 13;
	c->seed ^= c->seed >> 7;
	c->seed ^= c->seed << 17;
	return c->seed;
}

static void put_bytes(int dir_fd, const char *name, const struct node *n, struct crash *c)
{
	enum loss loss = c->seed ? (enum loss)(dice(c) % LOSS_COUNT) : c->data;
	const struct bytes *from = loss == LOSS_ALL ? &n->synced : &n->bytes;
	char *copy = malloc(from->len + 1);
	int fd;

	if (from->len > 0)
		memcpy(copy, from->data, from->len);
	for (size_t i = n->synced.len; i < from->len; i++)
		if (loss == LOSS_ZEROS || (loss == LOSS_HOLES && i / 128 % 2 == 0))
			copy[i] = 0;
	fd = (int)syscall(SYS_openat, dir_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	CHECK_EQ(syscall(SYS_write, fd, copy, from->len), (long)from->len);
	close(fd);
	free(copy);
}

static void put_node(int dir_fd, const char *name, unsigned node, struct crash *c);

static void put_names(int fd, const struct node *n, struct crash *c)
{
	const struct names *sets[] = {&n->names, &n->synced_names};

	for (unsigned k = 0; k < 2; k++)
		for (unsigned i = 0; i < sets[k]->count; i++) {
			const char *name = sets[k]->name[i];
			unsigned now = names_find(&n->names, name);
			unsigned synced = names_find(&n->synced_names, name);
			bool stays = c->seed ? dice(c) % 2 : c->names_stay;

			/* One in both sets comes once. */
			if (k == 1 && now)
				continue;
			if ((stays ? now : synced) != 0)
				put_node(fd, name, stays ? now : synced, c);
		}
}

static void put_node(int dir_fd, const char *name, unsigned node, struct crash *c)
{
	int fd;

	if (!nodes[node].is_dir) {
		put_bytes(dir_fd, name, &nodes[node], c);
		return;
	}
	CHECK_EQ(syscall(SYS_mkdirat, dir_fd, name, 0700), 0);
	fd = (int)syscall(SYS_openat, dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	CHECK(fd >= 0);
	put_names(fd, &nodes[node], c);
	close(fd);
}

/* ---- what is done, and what must be true ---- */

enum { SEGMENT_BYTES = 600, SEGMENTS = 3, BOX_MS = 7 };

static struct state st;
static struct err e;
static int base_fd; /* where homes are */
static unsigned states;

static void limit(struct audit_writer *w)
{
	w->segment_bytes_max = SEGMENT_BYTES;
	w->segments_max = SEGMENTS;
}

static void append(struct audit_writer *w, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		struct audit_row row = {.kind = "connect", .host = "a.test", .verdict = "allow"};

		CHECK_EQ(audit_append(w, &row, &e), 0);
		if (is_recording)
			op_add(OP_ACK, 0)->len = w->at.rows;
	}
}

static void sync_rows(struct audit_writer *w)
{
	CHECK_EQ(audit_sync(w, &e), 0);
	if (is_recording)
		op_add(OP_DURABLE, 0)->len = w->at.rows;
}

static void work(unsigned rows, unsigned per_sync)
{
	struct audit_writer w;

	CHECK_EQ(audit_open(&w, &st, "box", BOX_MS, &e), 0);
	limit(&w);
	for (unsigned done = 0; done < rows; done += per_sync) {
		append(&w, per_sync);
		sync_rows(&w);
	}
	audit_close(&w);
}

static void check_verifies(struct state *s, struct audit_report *ret, unsigned at)
{
	if (audit_verify(s, NULL, ret, &e) != 0) {
		printf("# after call %u: %s\n", at, e.msg);
		FAIL("a crash looks like tampering");
	}
}

/* Whatever was left: a writer goes on. */
static void check_goes_on(struct state *s, const struct audit_report *before, unsigned at)
{
	struct audit_report after;
	struct audit_writer w;

	CHECK_EQ(audit_open(&w, s, "box", BOX_MS, &e), 0);
	limit(&w);
	append(&w, 2);
	sync_rows(&w);
	audit_close(&w);
	check_verifies(s, &after, at);
	CHECK(after.rows + after.dropped >= before->rows + before->dropped + 2);
	CHECK_EQ(after.cut, 0);
}

static void check_state(struct crash c, unsigned at, uint64_t promised)
{
	char name[32], path[128];
	struct audit_report report;
	struct state copy;

	snprintf(name, sizeof(name), "home-%u", states++);
	put_node(base_fd, name, 1, &c);
	snprintf(path, sizeof(path), "%s/%s", home_path, name);
	CHECK_EQ(state_open(&copy, path, true, &e), 0);
	check_verifies(&copy, &report, at);
	if (report.rows + report.dropped < promised) {
		printf("# after call %u: %llu of %llu rows\n", at,
		       (unsigned long long)(report.rows + report.dropped),
		       (unsigned long long)promised);
		FAIL("rows are lost");
	}
	check_goes_on(&copy, &report, at);
	state_close(&copy);
	CHECK_EQ(tree_remove(base_fd, name, NULL), 0);
}

static void replay_to(unsigned count)
{
	nodes_reset(3);
	for (unsigned i = 0; i < count; i++)
		apply(&ops[i], ops[i].len);
}

static uint64_t promised_at(unsigned count, enum op_kind kind)
{
	uint64_t rows = 0;

	for (unsigned i = 0; i < count; i++)
		if (ops[i].kind == kind)
			rows = ops[i].len;
	return rows;
}

/* A home whose calls are written down. */
static void record_begin(void)
{
	struct stat s;
	const char *names[] = {"live", "live/boxes", "live/boxes/box"};
	char path[128];

	home_in_memory();
	home_make();
	base_fd = open(home_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(base_fd >= 0);
	snprintf(path, sizeof(path), "%s/live", home_path);
	CHECK_EQ(mkdirat(base_fd, "live", 0700), 0);
	CHECK_EQ(state_open(&st, path, true, &e), 0);
	CHECK_EQ(mkdirat(st.boxes_fd, "box", 0700), 0);
	for (unsigned i = 0; i < 3; i++) {
		CHECK_EQ(fstatat(base_fd, names[i], &s, 0), 0);
		node_add(s.st_ino);
	}
	is_recording = true;
}

static void record_rows(void)
{
	record_begin();
	work(6, 2);
	work(9, 3);
	is_recording = false;
	CHECK(op_count > 60);
}

TEST(kill_at_every_call_and_every_byte)
{
	const struct crash none = {.names_stay = true};
	unsigned rows = 0;

	record_rows();
	for (unsigned at = 0; at < op_count; at++) {
		const struct op *op = &ops[at];
		/* The first rows at every byte, the others here and there. */
		size_t step = op->kind != OP_WRITE ? 1 : rows++ < 2 ? 1 : 1 + op->len / 4;

		if (op->kind == OP_ACK || op->kind == OP_DURABLE)
			continue;
		for (size_t part = 0; part == 0 || (op->kind == OP_WRITE && part < op->len);
		     part += step) {
			replay_to(at);
			if (part > 0)
				apply(op, part);
			check_state(none, at, promised_at(at, OP_ACK));
		}
	}
	replay_to(op_count);
	check_state(none, op_count, promised_at(op_count, OP_ACK));
	printf("# %u calls, %u states\n", op_count, states);
}

TEST(loss_of_power_at_every_call)
{
	uint64_t seed = 88172645463325252u;

	record_rows();
	for (unsigned at = 0; at <= op_count; at++) {
		uint64_t promised = promised_at(at, OP_DURABLE);

		if (at > 0 && (ops[at - 1].kind == OP_ACK || ops[at - 1].kind == OP_DURABLE))
			continue;
		replay_to(at);
		for (enum loss loss = LOSS_NONE; loss < LOSS_COUNT; loss++)
			for (unsigned stay = 0; stay < 2; stay++)
				check_state((struct crash){loss, stay, 0}, at, promised);
		for (unsigned i = 0; i < 8; i++)
			check_state((struct crash){.seed = seed += 7919}, at, promised);
	}
	printf("# %u calls, %u states\n", op_count, states);
}

/* A deletion that is cut short is no tampering, and is finished by the next. */
TEST(kill_and_loss_of_power_while_a_log_is_deleted)
{
	struct audit_report report;
	uint64_t rows, seed = 88172645463325252u;
	unsigned from;

	record_begin();
	work(6, 3);
	from = op_count;
	CHECK_EQ(unlinkat(st.boxes_fd, "box/audit-log", 0), 0);
	op_count = from; /* of the box's own directory nothing is written down here */
	CHECK_EQ(unlinkat(st.boxes_fd, "box", AT_REMOVEDIR), 0);
	op_count = from;
	CHECK_EQ(audit_delete(&st, "box", 0, "test", &rows, &e), 0);
	is_recording = false;
	for (unsigned at = from; at <= op_count; at++) {
		replay_to(at);
		for (unsigned i = 0; i < 12; i++) {
			struct crash c = {.names_stay = true};
			char path[128];
			struct state copy;

			if (i > 0)
				c.seed = seed += 7919;
			put_node(base_fd, "copy", 1, &c);
			CHECK(unlinkat(base_fd, "copy/boxes/box/audit-log", 0) == 0 || i > 0);
			CHECK_EQ(unlinkat(base_fd, "copy/boxes/box", AT_REMOVEDIR), 0);
			snprintf(path, sizeof(path), "%s/copy", home_path);
			CHECK_EQ(state_open(&copy, path, true, &e), 0);
			check_verifies(&copy, &report, at);
			int r = audit_delete(&copy, "box", 0, "test", &rows, &e);
			CHECK(r == 0 || r == -ENOENT);
			check_verifies(&copy, &report, at);
			CHECK_EQ(report.rows, 0);
			state_close(&copy);
			CHECK_EQ(tree_remove(base_fd, "copy", NULL), 0);
		}
	}
}

TAP_MAIN
