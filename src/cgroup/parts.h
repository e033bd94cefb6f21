/* What the files of this module share: reading and writing a group's files, and the two kinds. */
#pragma once

#include "cgroup/cgroup.h"
#include "cgroup/layout.h"

#include <stddef.h>

/* Where an ordinary user's own processes are moved when limits are set beside them. */
#define CALLERS_DIR "cove-callers"

#define CGROUP_REMEDY_V2 "boot with systemd.unified_cgroup_hierarchy=1"

/* "memory", "cpu", ... */
extern const char *const cgroup_part_names[CGROUP_PART_COUNT];

enum { KNOB_TEXT_MAX = 4096, GROUP_DEPTH_MAX = 16, GROUP_WAIT_MS = 10000 };

/* Writes the whole text in one write(2). 0 or -errno. */
int knob_set(int dir_fd, const char *file, const char *text);
/* Writes a number and reads it back. The kernel may round down, never up: -ENODATA if another
 * value stands there afterwards. */
int knob_set_max(int dir_fd, const char *file, uint64_t value);
/* The same where any other value is wrong. */
int knob_set_exact(int dir_fd, const char *file, uint64_t value);
/* Writes a text and reads back what then stands there, NUL-terminated and without newline. */
int knob_set_text(int dir_fd, const char *file, const char *text, char *ret, size_t size);
/* A group's small file, NUL-terminated, cut at size. 0 or -errno. */
int knob_get(int dir_fd, const char *file, char *ret, size_t size);
uint64_t knob_get_u64(int dir_fd, const char *file);
/* The number after the word that starts a line: "oom_kill 3". 0 if there is none. */
uint64_t knob_field(const char *text, const char *word);

/* Is word one of those between spaces? */
bool knob_has_word(const char *text, const char *word);
/* Does a line start with these whole words? */
bool knob_has_line(const char *text, const char *start);

/* Makes (or finds) the group and opens its directory. A descriptor or -errno. */
int group_make(int dir_fd, const char *name);
int group_open(int dir_fd, const char *name);
/* Calls on_name for every group directly below. */
void group_each(int dir_fd, void (*on_name)(int dir_fd, const char *name, void *arg), void *arg);

/* nested.c: calls on_group for the group itself and for those below, GROUP_DEPTH_MAX deep. */
void group_walk(int dir_fd, void (*on_group)(int fd, void *arg), void *arg);
/* Removes every group below, however deep. -EBUSY: somebody is in one; -EAGAIN: CGROUP_STEPS_MAX
 * were not enough, and the next call goes on. */
int group_clear(int top_fd);

/* SIGKILL for all in a group and below, again until it stays empty. 0, or -ETIMEDOUT. For kinds, or
 * kernels, without a kill of their own; they are frozen meanwhile where that is possible. */
int group_kill_members(int box_fd, const struct cgroup_kind *kind);

/*
 * What differs between the two kinds of tree. Which of them a tree is follows from the layout,
 * once; everything else asks through this table.
 */
struct cgroup_kind {
	long magic;	       /* of its file system */
	const char *join_file; /* where a helper writes "0" to be in its group; NULL: born in it */
	const char *not_users; /* why an ordinary user cannot have a group; NULL: it may */
	/* cove/ was just made in this tree. May be NULL. */
	void (*on_boxes_made)(enum layout_tree t, int fd);
	/* Ends all in a box's group and below. 0, or -ETIMEDOUT. */
	int (*kill)(int fd);
	/* Returns when all are frozen, or thawed; on failure they are not left half frozen. */
	int (*freeze)(int fd, bool on, unsigned wait_ms);
	/* Removes the groups that a box's has from birth, where they are empty. */
	void (*remove_below)(const struct layout *l, enum layout_tree t, const char *box);

	/* Another limit of a part (not I/O) whose limit holds. */
	int (*change)(const struct cgroup *cg, const struct cgroup_limits *lim,
		      enum cgroup_part part);

	/* The numbers of the box's group: processor time; of a part what costs little to ask, and
	 * the rest. */
	void (*read_time)(const struct cgroup *cg, struct cgroup_stats *s);
	void (*read_now)(enum cgroup_part part, int fd, struct cgroup_stats *s);
	void (*read_rest)(enum cgroup_part part, int fd, struct cgroup_stats *s);
	bool (*counts_commands)(const struct cgroup *cg); /* their I/O */

	/* A helper's group (helper.h): its limit, its meter, and the file of another group, beside
	 * cove/, that it leaves to. */
	int (*limit_helper)(enum cgroup_helper_kind kind, const struct cgroup_limits *limits,
			    enum cgroup_part part, int fd);
	void (*open_meter)(enum cgroup_helper_kind kind, enum layout_tree t, int fd,
			   struct cgroup_meter *m);
	int (*open_exit)(const struct layout *l, int boxes_fd);
};
extern const struct cgroup_kind cgroup_v1, cgroup_v2;
const struct cgroup_kind *layout_kind(enum layout_tree t);

/* A file of a group; a descriptor or -errno. */
int knob_open(int dir_fd, const char *file, int flags);
/* Writes a number and believes that it was taken. */
int knob_set_u64(int dir_fd, const char *file, uint64_t value);
/* The page cache of files in memory.stat; shared memory is none of it. */
uint64_t knob_get_cache(int fd, const char *inactive, const char *active);

/* 1 << part: the controllers that v2 has, and those for a box with these limits. */
unsigned v2_read(const struct layout *l);
unsigned v2_find(const struct layout *l, const struct cgroup_limits *limits);
/* What is left of a box that ran one command, as most do that are thrown away. */
#define CGROUP_FIRST_COMMAND "/work/e1"

/* The v2 group with work/ below it, and init/ where it is to have controllers. */
int v2_make(const struct layout *l, const struct cgroup_want *w, unsigned controllers,
	    struct cgroup *cg);
/* Hands the controllers down to work/, and sets limits. */
void v2_limit(const struct layout *l, const struct cgroup_want *w, unsigned mask,
	      struct cgroup *cg);
/* Moves the processes that are in the group itself into one below it, if it was marked as the
 * caller's own. -EBUSY if not. */
int v2_make_room(int parent);
/* Kill and freeze where there is no v2 at all. */
int v1_make_tree(const struct layout *l, const struct cgroup_want *w, struct cgroup *cg);
/* Groups and limits in the v1 tree of one controller. */
void v1_limit(const struct layout *l, const struct cgroup_want *w, enum cgroup_part part,
	      struct cgroup *cg);

/* Hands controllers down as far as cove/, whose groups then have them. */
int v2_hand_to_boxes(const struct layout *l, unsigned mask);
/* What a keeper or door that is gone left in any tree; a group that is not empty stays. */
void helper_remove_left(const struct layout *l, const char *box);

/* Microseconds of cpu time per period; that of a new group. */
enum { CPU_PERIOD_US = 100000 };
struct cpu_quota {
	uint64_t quota_us, period_us;
};
struct cpu_quota cpu_quota(uint64_t cpu_milli);

/* The box's limit: its commands', and the reserve for init. */
uint64_t memory_of_box(uint64_t mem_bytes);

/* v1: what network buffers may take beside that much memory. */
uint64_t tcp_of_memory(uint64_t mem_bytes);

/* Was this limit asked for? */
bool limit_is_set(const struct cgroup_limits *limits, enum cgroup_part part);
/* Why a limit does not hold although its controller is there. */
void limit_why(int code, enum cgroup_part part, char *why);
