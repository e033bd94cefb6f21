/*
 * Where this host's cgroup trees are and which of them this caller may use. Internal to the module,
 * and the place where its tests put a tree of plain files in place of the kernel's.
 */
#pragma once

#include "cgroup/cgroup.h"
#include "cgroup/helper.h"

/* The trees. The first ones are numbered as the parts of a box are. */
enum layout_tree {
	LAYOUT_V2 = CGROUP_TREE,
	LAYOUT_MEMORY = CGROUP_MEMORY,
	LAYOUT_CPU = CGROUP_CPU,
	LAYOUT_PIDS = CGROUP_PIDS,
	LAYOUT_IO = CGROUP_IO,
	LAYOUT_FREEZER, /* used where there is no v2: kill and freeze */
	LAYOUT_CPUACCT, /* likewise: cpu time */
	LAYOUT_COUNT
};

enum { LAYOUT_PATH_MAX = 512 };

struct layout_dir {
	char path[LAYOUT_PATH_MAX]; /* the directory that holds cove/; "" where there is none */
	bool is_readonly;
	bool is_checked; /* nothing is mounted over it: a group was made there */
};

struct layout {
	char root[LAYOUT_PATH_MAX]; /* before every path: "" but in tests */
	bool is_root;		    /* else only a delegated group may be used */
	struct layout_dir dir[LAYOUT_COUNT];
	bool knows_v2; /* the next is what v2 has, 1 << part */
	unsigned v2_has;
};

/* What the text of a process's mountinfo and cgroup files says; both are cut to pieces. */
void layout_parse(char *mountinfo, char *self_cgroup, const char *root, bool is_root,
		  struct layout *ret);

/* layout_parse for this process. Where /proc cannot be read nothing is found. */
void layout_find(struct layout *ret);

bool layout_has(const struct layout *l, enum layout_tree t);
/* v1 controllers may share one mount; only the first of them counts when trees are walked. */
bool layout_is_repeat(const struct layout *l, enum layout_tree t);
/* "v2", "hybrid", "v1" or "none". */
const char *layout_name(const struct layout *l);

/* Opens the directory that holds cove/, and cove/ itself, making it if asked to. */
int layout_open_parent(const struct layout *l, enum layout_tree t);
int layout_open(const struct layout *l, enum layout_tree t, bool make);

/* Makes (or finds: *ret_new, may be NULL) and opens a box's group; removes it, or one below it
 * ("/work"). Whole paths: of the calls that a box needs these are the most, and each has one
 * lookup. */
int layout_make(const struct layout *l, enum layout_tree t, const char *box, bool *ret_new);
int layout_remove(const struct layout *l, enum layout_tree t, const char *box, const char *below);

/* The path of a box's group in a tree, or of one below it ("/work"). False: it is too long. */
bool layout_path(const struct layout *l, enum layout_tree t, const char *box, const char *below,
		 char *ret, size_t size);

/* Why a controller is in no tree that may be used: what the kernel says of it, and the remedy. */
void layout_why(const struct layout *l, enum cgroup_part part, char *why);
/* Why making a group failed. */
void layout_why_errno(const struct layout *l, enum layout_tree t, int code, char *why);

/* The disk that a device number is on, a partition's being its parent. 0 if it is on none. */
dev_t layout_disk(const struct layout *l, dev_t dev);

/* The calls of cgroup.h on a given layout. */
struct cgroup_want {
	const char *box;
	const struct cgroup_limits *limits;
	uid_t uid; /* init's */
	gid_t gid;
};
int cgroup_make_in(const struct layout *l, const struct cgroup_want *w, struct cgroup *ret,
		   struct err *e);
int cgroup_remove_in(const struct layout *l, const char *box, struct err *e);
int cgroup_each_in(const struct layout *l, void (*on_box)(const char *box, void *arg), void *arg);
void cgroup_probe_in(struct layout *l, struct cgroup_offer *ret);
