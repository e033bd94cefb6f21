/* The groups of a box for tests; see group_rig.h. */
#include "group_rig.h"

#include "tap.h"

#include "base/clock.h"
#include "base/fd.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

static const char *const mounts[RIG_PARTS] = {"/sys/fs/cgroup/unified", "/sys/fs/cgroup/memory",
					      "/sys/fs/cgroup/blkio", "/sys/fs/cgroup/pids"};
static const char *const options[RIG_PARTS] = {"--cgroup", "--memory-v1", "--io-v1",
					       "--pids-events"};

static int write_in(const char *dir, const char *file, const char *text)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	autoclose int fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd_write_full(fd, text, strlen(text));
}

static int write_number(const char *dir, const char *file, uint64_t n)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)n);
	return write_in(dir, file, text);
}

static void give(struct rig *r, const char *option, const char *path, int flags)
{
	unsigned n = r->inherited.count++;

	r->args[n] = option;
	r->inherited.fd[n] = open(path, O_RDONLY | O_CLOEXEC | flags);
	CHECK(r->inherited.fd[n] >= 0);
}

static void give_events(struct rig *r, int part)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/pids.events", r->path[part]);
	give(r, options[RIG_PIDS], path, 0);
}

static bool make_part(struct rig *r, int part, const char *mount, const char *option)
{
	char sub[128];

	snprintf(r->path[part], sizeof(r->path[part]), "%s/cove-rig-%d", mount, (int)getpid());
	if (mkdir(r->path[part], 0755) < 0) {
		r->path[part][0] = '\0';
		return false;
	}
	snprintf(sub, sizeof(sub), "%s/init", r->path[part]);
	CHECK_EQ(mkdir(sub, 0755), 0);
	snprintf(sub, sizeof(sub), "%s/work", r->path[part]);
	CHECK_EQ(mkdir(sub, 0755), 0);
	if (part == RIG_PIDS)
		give_events(r, part);
	else
		give(r, option, sub, O_DIRECTORY);
	return true;
}

static void take_away(struct rig *r)
{
	for (int i = 0; i < RIG_PARTS; i++) {
		char sub[128];

		if (!r->path[i][0])
			continue;
		snprintf(sub, sizeof(sub), "%s/work", r->path[i]);
		rmdir(sub);
		snprintf(sub, sizeof(sub), "%s/init", r->path[i]);
		rmdir(sub);
		rmdir(r->path[i]);
	}
}

/* One tree with controllers. */
static void make_v2(struct rig *r, uint64_t mem_bytes, unsigned pids)
{
	char work[128], init[128];

	if (!make_part(r, RIG_TREE, "/sys/fs/cgroup", options[RIG_TREE]))
		SKIP("no cgroup that may be written to");
	snprintf(work, sizeof(work), "%s/work", r->path[RIG_TREE]);
	snprintf(init, sizeof(init), "%s/init", r->path[RIG_TREE]);
	if (write_in(r->path[RIG_TREE], "cgroup.subtree_control", "+memory +pids +io") < 0 ||
	    write_in(work, "cgroup.subtree_control", "+memory +pids +io") < 0) {
		take_away(r);
		SKIP("the controllers memory, pids and io of cgroup v2 are not to be had");
	}
	give_events(r, RIG_TREE);
	if (mem_bytes > 0)
		CHECK_EQ(write_number(work, "memory.max", mem_bytes), 0);
	if (mem_bytes > 0)
		write_number(work, "memory.swap.max", 0);
	if (pids > 0)
		CHECK_EQ(write_number(r->path[RIG_TREE], "pids.max", pids), 0);
	CHECK_EQ(write_in(init, "cgroup.procs", "0"), 0);
}

/* A tree without controllers, and one for each of them. */
static void make_hybrid(struct rig *r, uint64_t mem_bytes, unsigned pids)
{
	char work[128], init[128];

	for (int i = 0; i < RIG_PARTS; i++)
		if (!make_part(r, i, mounts[i], options[i])) {
			take_away(r);
			SKIP("a cgroup v1 hierarchy that may not be written to");
		}
	snprintf(work, sizeof(work), "%s/work", r->path[RIG_MEMORY]);
	snprintf(init, sizeof(init), "%s/init", r->path[RIG_MEMORY]);
	if (mem_bytes > 0)
		CHECK_EQ(write_number(work, "memory.limit_in_bytes", mem_bytes), 0);
	if (pids > 0)
		CHECK_EQ(write_number(r->path[RIG_PIDS], "pids.max", pids), 0);
	CHECK_EQ(write_in(init, "tasks", "0"), 0);
	CHECK_EQ(write_in(r->path[RIG_PIDS], "tasks", "0"), 0);
}

void rig_make(struct rig *r, uint64_t mem_bytes, unsigned pids)
{
	*r = (struct rig){0};
	if (access("/sys/fs/cgroup/cgroup.procs", F_OK) == 0)
		make_v2(r, mem_bytes, pids);
	else
		make_hybrid(r, mem_bytes, pids);
	if (pids > 0) {
		snprintf(r->limit, sizeof(r->limit), "%u", pids);
		r->args[r->inherited.count] = "--pids-limit";
		r->args[r->inherited.count + 1] = r->limit;
	}
}

/* Calls fn for every group of a command. */
static void each(const struct rig *r, void (*fn)(int dir_fd, const char *name, void *arg),
		 void *arg)
{
	for (int i = 0; i < RIG_PIDS; i++) {
		char work[128];
		struct dirent *e;
		DIR *d;

		snprintf(work, sizeof(work), "%s/work", r->path[i]);
		d = r->path[i][0] ? opendir(work) : NULL;
		while (d && (e = readdir(d)))
			if (e->d_type == DT_DIR && e->d_name[0] == 'e')
				fn(dirfd(d), e->d_name, arg);
		if (d)
			closedir(d);
	}
}

static void remove_one(int dir_fd, const char *name, void *arg)
{
	unlinkat(dir_fd, name, AT_REMOVEDIR);
}

void rig_remove(struct rig *r)
{
	uint64_t until = clock_mono_ms() + 20000;

	for (int i = 0; i < RIG_PARTS; i++) {
		const char *mount = strcmp(options[i], "--cgroup") == 0 && !r->path[RIG_MEMORY][0]
					    ? "/sys/fs/cgroup"
					    : mounts[i];

		if (r->path[i][0])
			CHECK_EQ(write_in(mount, "cgroup.procs", "0"), 0);
	}
	for (unsigned i = 0; i < r->inherited.count; i++)
		close(r->inherited.fd[i]);
	for (bool left = true; left;) {
		each(r, remove_one, NULL);
		take_away(r);
		left = false;
		for (int i = 0; i < RIG_PARTS; i++)
			left = left || (r->path[i][0] && access(r->path[i], F_OK) == 0);
		CHECK(clock_mono_ms() < until);
		if (left)
			poll(NULL, 0, 5);
	}
}

struct count {
	char premade[16];
	unsigned n;
};

static void count_one(int dir_fd, const char *name, void *arg)
{
	struct count *c = arg;

	c->n += strcmp(name, c->premade) != 0;
}

unsigned rig_count(const struct rig *r, uint32_t last_id)
{
	struct count c = {.n = 0};

	snprintf(c.premade, sizeof(c.premade), "e%u", (unsigned)last_id + 1);
	each(r, count_one, &c);
	return c.n;
}

static unsigned count_named(const struct rig *r, const char *name, unsigned *ret_parts)
{
	unsigned n = 0;

	*ret_parts = 0;
	for (int i = 0; i < RIG_PIDS; i++) {
		char path[160];

		if (!r->path[i][0])
			continue;
		snprintf(path, sizeof(path), "%s/work/%s", r->path[i], name);
		n += access(path, F_OK) == 0;
		++*ret_parts;
	}
	return n;
}

bool rig_has(const struct rig *r, const char *name)
{
	unsigned parts;

	return count_named(r, name, &parts) > 0;
}

bool rig_has_everywhere(const struct rig *r, const char *name)
{
	unsigned parts, n = count_named(r, name, &parts);

	return n == parts;
}
