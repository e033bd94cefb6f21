/* A disk that is written down, and that fails; see rails_disk.h. */
#include "rails_disk.h"

#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NODES = 512, OPS = 1 << 15, NAMES = 64, NAME = 96, SECTOR = 512 };

enum op_kind { OP_CREATE, OP_WRITE, OP_SYNC, OP_RENAME, OP_UNLINK, OP_NOTE };

struct op {
	enum op_kind kind;
	unsigned node, child; /* child: what OP_CREATE made, or OP_RENAME moved to */
	bool is_dir;
	char name[NAME], to[NAME];
	uint8_t *data; /* owned */
	size_t len, offset;
	struct disk_note note;
};

static struct op ops[OPS];
static unsigned op_count, node_count, calls, fault_at;
static ino_t inodes[NODES];
static enum disk_fault fault;
static bool is_recording, no_syncs, has_failed;

void disk_arm(enum disk_fault f, unsigned at)
{
	fault = f;
	fault_at = at;
	calls = 0;
	has_failed = false;
}

unsigned disk_calls(void)
{
	return calls;
}

bool disk_has_failed(void)
{
	return has_failed;
}

void disk_forget_syncs(bool on)
{
	no_syncs = on;
}

/* ---- writing down ---- */

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

static void op_create(unsigned dir, int dir_fd, const char *name, bool is_dir)
{
	struct op *op = op_add(OP_CREATE, dir);
	struct stat s;

	CHECK_EQ(fstatat(dir_fd, name, &s, AT_SYMLINK_NOFOLLOW), 0);
	snprintf(op->name, sizeof(op->name), "%s", name);
	op->child = node_add(s.st_ino);
	op->is_dir = is_dir;
}

void disk_record(int dir_fd)
{
	struct stat s;

	for (unsigned i = 0; i < op_count; i++)
		free(ops[i].data);
	op_count = node_count = 0;
	CHECK_EQ(fstat(dir_fd, &s), 0);
	node_add(s.st_ino);
	is_recording = true;
}

void disk_record_stop(void)
{
	is_recording = false;
}

unsigned disk_ops(void)
{
	return op_count;
}

void disk_note(struct disk_note note)
{
	if (is_recording)
		op_add(OP_NOTE, 0)->note = note;
}

const struct disk_note *disk_note_at(unsigned op)
{
	return ops[op].kind == OP_NOTE ? &ops[op].note : NULL;
}

/* ---- the calls ---- */

/* 0, or the error that this call has. */
static int call(void)
{
	if (fault == DISK_WELL || ++calls != fault_at)
		return 0;
	has_failed = true;
	if (fault == DISK_DIES)
		_exit(0);
	return fault == DISK_NOSPC ? ENOSPC : EIO;
}

static int failed(int code)
{
	errno = code;
	return -1;
}

/* Where a path with a slash ends up, as a directory and a name. */
static int parent_of(int dir_fd, const char *path, const char **ret_name)
{
	const char *slash = strrchr(path, '/');
	char dir[256];

	*ret_name = slash ? slash + 1 : path;
	if (!slash)
		return (int)syscall(SYS_dup, dir_fd);
	snprintf(dir, sizeof(dir), "%.*s", (int)(slash - path), path);
	return (int)syscall(SYS_openat, dir_fd, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
}

int openat(int dir_fd, const char *path, int flags, ...)
{
	const char *name = path;
	unsigned dir = 0;
	struct stat s;
	bool is_new = false;
	int fd, parent = -1, mode = 0, code;
	va_list args;

	va_start(args, flags);
	if (flags & O_CREAT)
		mode = va_arg(args, int);
	va_end(args);
	if (flags & O_CREAT) {
		code = call();
		if (code)
			return failed(code);
		parent = parent_of(dir_fd, path, &name);
		dir = parent >= 0 ? node_of(parent) : 0;
		is_new = dir && fstatat(parent, name, &s, AT_SYMLINK_NOFOLLOW) < 0;
	}
	fd = (int)syscall(SYS_openat, dir_fd, path, flags, mode);
	if (fd >= 0 && is_new)
		op_create(dir, parent, name, false);
	if (parent >= 0)
		syscall(SYS_close, parent);
	return fd;
}

ssize_t pwrite(int fd, const void *p, size_t n, off_t offset)
{
	unsigned node = node_of(fd);
	int code = 0;
	ssize_t r;

	if (fault == DISK_DIES && calls + 1 == fault_at)
		syscall(SYS_pwrite64, fd, p, n / 2, offset);
	code = call();
	if (code)
		return failed(code);
	r = syscall(SYS_pwrite64, fd, p, n, offset);
	if (node && r > 0) {
		struct op *op = op_add(OP_WRITE, node);

		op->data = malloc((size_t)r);
		memcpy(op->data, p, (size_t)r);
		op->len = (size_t)r;
		op->offset = (size_t)offset;
	}
	return r;
}

ssize_t write(int fd, const void *p, size_t n)
{
	off_t offset = is_recording || fault ? lseek(fd, 0, SEEK_CUR) : -1;
	ssize_t r;

	/* Pipes and the report of the tests. */
	if (offset < 0 || fd <= 2)
		return syscall(SYS_write, fd, p, n);
	r = pwrite(fd, p, n, offset);
	if (r > 0)
		lseek(fd, r, SEEK_CUR);
	return r;
}

int fsync(int fd)
{
	unsigned node = node_of(fd);
	int code = call();

	if (code)
		return failed(code);
	if (node && !no_syncs)
		op_add(OP_SYNC, node);
	return 0; /* the real disk is not in this test */
}

int fdatasync(int fd)
{
	return fsync(fd);
}

int sync_file_range(int fd, off_t from, off_t n, unsigned flags)
{
	return 0;
}

int fallocate(int fd, int mode, off_t from, off_t n)
{
	int code = call();

	return code ? failed(code) : 0;
}

int mkdirat(int dir_fd, const char *path, mode_t mode)
{
	unsigned dir = node_of(dir_fd);
	int code = call(), r;

	if (code)
		return failed(code);
	r = (int)syscall(SYS_mkdirat, dir_fd, path, mode);
	if (dir && r == 0)
		op_create(dir, dir_fd, path, true);
	return r;
}

int renameat(int old_fd, const char *old, int new_fd, const char *new)
{
	unsigned dir = node_of(old_fd);
	int code = call(), r;

	if (code)
		return failed(code);
	r = (int)syscall(SYS_renameat2, old_fd, old, new_fd, new, 0);
	if (dir && r == 0) {
		struct op *op = op_add(OP_RENAME, dir);

		snprintf(op->name, sizeof(op->name), "%s", old);
		snprintf(op->to, sizeof(op->to), "%s", new);
		op->child = node_of(new_fd);
	}
	return r;
}

int unlinkat(int dir_fd, const char *path, int flags)
{
	const char *name = path;
	int parent = is_recording ? parent_of(dir_fd, path, &name) : -1;
	unsigned dir = parent >= 0 ? node_of(parent) : 0;
	int code = call(), r;

	if (parent >= 0)
		syscall(SYS_close, parent);
	if (code)
		return failed(code);
	r = (int)syscall(SYS_unlinkat, dir_fd, path, flags);
	if (dir && r == 0) {
		struct op *op = op_add(OP_UNLINK, dir);

		snprintf(op->name, sizeof(op->name), "%s", name);
	}
	return r;
}

/* ---- the disk after a loss of power ---- */

struct names {
	char name[NAMES][NAME];
	unsigned node[NAMES], count;
};

struct node {
	bool is_dir;
	uint8_t *now, *kept; /* owned */
	size_t now_len, kept_len;
	struct names names, kept_names;
};

static struct node nodes[NODES];
static uint64_t seed;

static uint64_t dice(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

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
		if (i == n->count)
			return;
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

static void put_bytes(uint8_t **p, size_t *len, const uint8_t *data, size_t n, size_t offset)
{
	if (offset + n > *len) {
		*p = realloc(*p, offset + n);
		memset(*p + *len, 0, offset + n - *len);
		*len = offset + n;
	}
	if (n)
		memcpy(*p + offset, data, n);
}

/* What of a write that was not synced came to the disk. */
static void keep_some(struct node *n, const struct op *op)
{
	for (size_t at = 0; at < op->len;) {
		size_t part = SECTOR - (op->offset + at) % SECTOR;

		if (part > op->len - at)
			part = op->len - at;
		if (dice() % 2)
			put_bytes(&n->kept, &n->kept_len, op->data + at, part, op->offset + at);
		at += part;
	}
}

static void apply(const struct op *op)
{
	struct node *n = &nodes[op->node];

	switch (op->kind) {
	case OP_CREATE:
		names_set(&n->names, op->name, op->child);
		nodes[op->child].is_dir = op->is_dir;
		break;
	case OP_WRITE:
		put_bytes(&n->now, &n->now_len, op->data, op->len, op->offset);
		break;
	case OP_SYNC:
		n->kept_names = n->names;
		free(n->kept);
		n->kept = malloc(n->now_len + 1);
		if (n->now_len)
			memcpy(n->kept, n->now, n->now_len);
		n->kept_len = n->now_len;
		break;
	case OP_RENAME:
		names_set(&nodes[op->child].names, op->to, names_find(&n->names, op->name));
		names_set(&n->names, op->name, 0);
		break;
	case OP_UNLINK:
		names_set(&n->names, op->name, 0);
		break;
	case OP_NOTE:
		break;
	}
}

static void put_file(int dir_fd, const char *name, const uint8_t *p, size_t n)
{
	int fd = (int)syscall(SYS_openat, dir_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	CHECK(fd >= 0);
	CHECK_EQ(syscall(SYS_pwrite64, fd, p ? p : (const uint8_t *)"", n, 0), (long)n);
	close(fd);
}

static void put_node(int dir_fd, const char *name, unsigned node, enum disk_loss loss)
{
	const struct node *n = &nodes[node];
	const struct names *sets[] = {&n->names, &n->kept_names};
	int fd;

	if (!n->is_dir) {
		if (loss == DISK_LOSES_NOTHING)
			put_file(dir_fd, name, n->now, n->now_len);
		else
			put_file(dir_fd, name, n->kept, n->kept_len);
		return;
	}
	CHECK_EQ(syscall(SYS_mkdirat, dir_fd, name, 0700), 0);
	fd = (int)syscall(SYS_openat, dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	CHECK(fd >= 0);
	for (unsigned k = 0; k < 2; k++)
		for (unsigned i = 0; i < sets[k]->count; i++) {
			const char *child = sets[k]->name[i];
			unsigned now = names_find(&n->names, child);
			unsigned kept = names_find(&n->kept_names, child);
			bool stays = loss == DISK_LOSES_NOTHING ||
				     (loss == DISK_LOSES_SOME && dice() % 2);

			if (k == 1 && now)
				continue;
			if ((stays ? now : kept) != 0)
				put_node(fd, child, stays ? now : kept, loss);
		}
	close(fd);
}

void disk_make(int dir_fd, const char *name, unsigned count, enum disk_loss loss, uint64_t with)
{
	unsigned synced[NODES] = {0};

	seed = with * 0x9e3779b97f4a7c15u + 1;
	for (unsigned i = 0; i < NODES; i++) {
		free(nodes[i].now);
		free(nodes[i].kept);
		nodes[i] = (struct node){0};
	}
	nodes[1].is_dir = true;
	for (unsigned i = 0; i < count; i++) {
		apply(&ops[i]);
		if (ops[i].kind == OP_SYNC)
			synced[ops[i].node] = i;
	}
	for (unsigned i = 0; i < count && loss == DISK_LOSES_SOME; i++)
		if (ops[i].kind == OP_WRITE && i >= synced[ops[i].node])
			keep_some(&nodes[ops[i].node], &ops[i]);
	put_node(dir_fd, name, 1, loss);
}
