/*
 * The gVisor wall while a box is built: what begin makes, and what the new process adds to it on
 * the way to runsc.
 */
#pragma once

#include "base/buf.h"
#include "wall/native/enter.h"
#include "wall/wall.h"

#include <stdbool.h>

/* Where things are for runsc: the scratch of guest.h is its whole root.
 *
 *	/runsc	itself, read-only
 *	/root	the box's tree, an overlay		/given/<n>	what the caller shares
 *	/bundle	config.json				/state		runsc's own files
 *	/covers	files for the box's /proc		/cove-trust	what the box trusts
 *	/cove-ctl	what the box asks with, read-only
 *	/proc	of the outer pid namespace		/dev, /tmp	runsc's own
 */
#define GVISOR_TREE    "/root"
#define GVISOR_TRUST   "/cove-trust"
#define GVISOR_CTL     "/cove-ctl"
#define GVISOR_COVERS  "/covers"
#define GVISOR_START   "/tmp/.cove-start" /* in the box: see steps.c */
#define GVISOR_PROGRAM "/runsc"
/* For a runsc that takes no descriptor of init's program: where that is, and where in the box. */
#define GVISOR_INIT	"/init/cove-init"
#define GVISOR_BOX_INIT "/dev/cove-init"

/* What a runsc has; Debian's of 2022 has none of it. */
enum gvisor_has {
	GVISOR_SUID = 1 << 0,	   /* set-user-ID programs can be switched on */
	GVISOR_SETTINGS = 1 << 1,  /* a check of the host that can be left out; --exec-fd */
	GVISOR_GOFER_NET = 1 << 2, /* the gofer's network can be chosen */
	GVISOR_SYSTRAP = 1 << 3,   /* the platform that is faster than ptrace */
	GVISOR_DIRECTFS = 1 << 4,  /* the sandbox can do without the gofer for files */

	/* What was learned by running it here: */
	GVISOR_RAN = 1 << 16,	 /* boxes came up with the platform below */
	GVISOR_PTRACE = 1 << 17, /* systrap did not start one */
};

struct gvisor_program {
	unsigned has;
	char version[64];
};

struct gvisor_given {
	const char *dst;
	char source[32]; /* for runsc */
	bool read_only;
};

struct gvisor_build {
	const struct wall_config *config;
	struct gvisor_program runsc;
	int program;	     /* owned; runsc */
	int note;	     /* owned; see gvisor_know */
	int init;	     /* owned; init's program, only to be read */
	int errors[2];	     /* owned; [1] what runsc and init complain about */
	bool is_led;	     /* the network has its rules; in the new process only */
	bool has_start_file; /* the same */
	struct gvisor_given given[WALL_MOUNTS_MAX]; /* the same */
	size_t given_count;
};

/* known.c: asks the program, once for as long as it stays the same. As long as no box came up,
 * ret_note is where gvisor_learn writes; -1 else. */
int gvisor_know(const struct wall_config *c, int fd, struct gvisor_program *ret, int *ret_note,
		struct err *e);
static inline const char *gvisor_platform(const struct gvisor_program *p)
{
	return p->has & GVISOR_SYSTRAP && !(p->has & GVISOR_PTRACE) ? "systrap" : "ptrace";
}
/* A box came up, or not. Until the first one does each start tries the other platform. Returns
 * whether the next one will. */
bool gvisor_learn(int note, int fd, struct gvisor_program *p, bool came_up);

/* steps.c: for native_begin_with. */
int gvisor_plan(struct plan *p, const struct wall_config *c, struct err *e);

/* modes.c: no process of runsc's makes a file set-user-ID or set-group-ID, from here on. Needs
 * no_new_privs. 0 or -errno. */
int gvisor_hold_modes(void);

/* bundle.c: the OCI configuration, as the new process needs it. -EILSEQ where an argument is not
 * UTF-8, which JSON has to be. */
enum { GVISOR_BUNDLE_MAX = 8 << 20 };
int gvisor_bundle_write(const struct gvisor_build *g, struct buf *out);
