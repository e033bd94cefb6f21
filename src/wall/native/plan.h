/*
 * How a native box is built, as data: which parts of the host it is given (sources), and the steps
 * that the new process takes, in order. plan_make decides, enter.c executes.
 * Nothing in a plan is resolved inside the box's tree by host code: destinations are looked up by
 * the new process, beneath its own root.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/limits_build.h"
#include "cgroup/view.h"
#include "filter/filter.h"
#include "guest/guest.h"
#include "storage/storage.h"
#include "wall/host.h"
#include "wall/native/init_fds.h"
#include "wall/native/nest.h"
#include "wall/wall.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	PLAN_HOST_DIRS = 7,
	PLAN_SOURCES_MAX = 1 + SPEC_LAYER_MAX + GUEST_DEVICES + PLAN_HOST_DIRS + WALL_MOUNTS_MAX +
			   WALL_LOWERS_MAX + 1,
	PLAN_STEPS_MAX = 96 + WALL_PINS_MAX + BUILD_SECRETS_MAX,
};

enum idmap { IDMAP_NONE, IDMAP_BOX, IDMAP_OWNER };

/* Something of the host that the box gets: a detached mount, made where there is the right to. */
struct plan_source {
	const char *path;
	int mount_fd;	     /* above 0: a detached mount instead of the path, borrowed */
	bool absent;	     /* not there: the step that uses it makes its own */
	bool late;	     /* the step that uses it gets it from the keeper: plan_open_late */
	const char *beneath; /* resolved below path, cannot leave it; may be NULL */
	bool no_links;	     /* neither path nor beneath goes through one */
	uint64_t attrs;	     /* MA_* */
	enum idmap idmap;    /* as root only */
	uid_t uid;	     /* of IDMAP_OWNER */
	gid_t gid;
	bool idmap_optional; /* readable without, so a filesystem that cannot is no error */
	bool recursive;
	uint32_t device; /* not 0: must be this character device, major << 8 | minor */
	bool is_dir;	 /* found when opened */
	int fd;		 /* owned; -1 until opened */
};

enum step_kind {
	STEP_SCRATCH,	/* a private tmpfs to build on */
	STEP_ROOT,	/* the overlay that becomes / */
	STEP_PROC,	/* the new pid namespace's, on the scratch */
	STEP_SYSCTL,	/* a = file below /proc/sys, b = value */
	STEP_OWN_PROC,	/* the box's own files in /proc, handed to the keeper */
	STEP_MASKS,	/* parts of /proc: nothing to see */
	STEP_READONLY,	/* a = path below /proc */
	STEP_DEV,	/* its nodes, pts, shm and the shells' directory, on the scratch */
	STEP_CTL,	/* cove-ctl in it */
	STEP_SHOW_DEV,	/* as it was made, at /dev */
	STEP_FILE,	/* a = path, b = content: a small file over the image's */
	STEP_SECRET,	/* the secret of that index, over a */
	STEP_BIND,	/* source -> a */
	STEP_STACK,	/* an overlay of the mount's lowers, from source on -> a */
	STEP_BIND_IN,	/* b below a, both in the box's tree -> the destination of mount `source` */
	STEP_SHOW_PROC, /* as it was made, at /proc */
	STEP_GROUPS,	/* the box's own groups, read-only, at /sys/fs/cgroup: cgroup/view.h */
	STEP_TRUST,	/* what it trusts besides the image's own: trust.h */
	STEP_HOSTNAME,
	STEP_PARK, /* of a box that is made ahead: park.h */
	STEP_LOOPBACK,
	STEP_NET,   /* the way to the door: redirect.h; the keeper hears of it */
	STEP_PIVOT, /* the host's mounts are gone from here on */
	STEP_KEYRING,
	STEP_RLIMITS,
	STEP_NEST,     /* the second user namespace of an ordinary user's box: nest.h */
	STEP_CPUS,     /* the processors it may run on */
	STEP_LANDLOCK, /* behind the mounts; where the kernel has it */
	STEP_SECCOMP,
	STEP_CAPS,  /* last: the two before need what this drops */
	STEP_OTHER, /* of a wall that uses these namespaces for something else than init: run */
	STEP_KIND_COUNT
};

struct enter;

struct step {
	enum step_kind kind;
	const char *a, *b;
	int source;					   /* index; of a mount for STEP_BIND_IN */
	int (*run)(struct enter *n, const struct step *s); /* STEP_OTHER */
	const char *what;				   /* the same, for messages */
};

struct plan {
	const struct wall_config *config;
	const struct ids *ids;
	struct plan_source sources[PLAN_SOURCES_MAX];
	int source_count;
	int first_device; /* index of the first device source */
	int scratch;	  /* owned; -1: the new process makes it */
	bool has_nodes;	  /* the scratch has device nodes of the box's own, or: the sources */
	struct init_fd init_fds[INIT_FDS_MAX];
	size_t init_fd_count;
	int view_fd[CGROUP_VIEWS_MAX]; /* owned; the box's groups as it is shown them, or -1 */
	bool forks_untold;	       /* refused forks are not known per command */
	int box_ns; /* owned; the box's user namespace, or -1: as root, once it is there */
	struct step steps[PLAN_STEPS_MAX];
	int step_count;
	int landlock_abi; /* 0: none */
	bool dumps_core;  /* a crash starts a program of the host's: that cannot be helped here */
	char instances[NEST_TEXT], watches[NEST_TEXT]; /* of inotify, for the whole box; "" */
	int net_missing; /* errno for which there is no redirect; known when init runs */
	enum filter_kind filter;
	uint8_t secret[FILTER_SECRET_BYTES]; /* init's, see filter.h */
	char hosts[GUEST_HOSTS_MAX], device_paths[GUEST_DEVICES][16];
	/* Of a wall that uses these namespaces for something else than init. */
	void *own; /* borrowed */
	/* Executes that, from the new process, with the wire on 0 and 1; status is as for
	 * place_descriptors. NULL: cove-init. Returns only with -errno. */
	int (*become)(struct enter *n, int wire, int *status);
	const char *tree_in_proc; /* of its first process: where the box's tree is */
};

/* The lowers follow each other from PLAN_LOWER on. */
enum { PLAN_RW = 0, PLAN_LOWER = 1 };

int plan_make(struct plan *p, const struct wall_config *c, struct err *e);

/* Its parts, for a plan that another wall makes: the layers and devices as the first sources; the
 * box's own small files; and single steps. */
int plan_init(struct plan *p, const struct wall_config *c, struct err *e);
void plan_files(struct plan *p);
void plan_host_dirs(struct plan *p); /* of an image that is the host's */
void plan_mounts(struct plan *p);
/* Whether the box may write to a directory of the host. */
bool plan_is_shared(const struct wall_config *c);
void plan_add(struct plan *p, struct step s);
int plan_add_source(struct plan *p, struct plan_source s); /* its index */
void plan_done(struct plan *p);				   /* closes the sources */

/* Makes the detached mounts. As root before the new process exists, with the host's own rights;
 * otherwise in the new process, whose copy of the mounts it may clone. */
int plan_open_sources(struct plan *p, struct err *e);

/* The same for what init is given and the box is shown of its groups, in the same process;
 * plan_find_init_fds before it exists. */
int plan_find_init_fds(struct plan *p, struct err *e);
int plan_open_groups(struct plan *p, struct err *e);

/* As root, once the box's ids are mapped: makes the sources id-mapped, by box_ns. */
int plan_idmap_sources(struct plan *p, struct err *e);

/* Both for the layer that came late. */
int plan_open_late(struct plan *p, struct err *e);
