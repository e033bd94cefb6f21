/*
 * What every box needs inside, whichever wall it is behind: /dev, /proc with masks, small files of
 * /etc, loopback. The redirect is in redirect.h, the trust store in trust.h. A wall that builds the
 * box from outside calls these from its steps; behind a wall that only starts init in a fresh
 * kernel init calls them itself (setup.h).
 *
 * Everything is made on the scratch, a tmpfs of its own that is the current directory meanwhile,
 * and shown when it is whole: a box that is started again brings a tree it has written itself, so
 * places in that tree are opened with guest_target_open only.
 *
 *	scratch/dev	becomes /dev; scratch/nodes holds devices that are not in there
 *	scratch/proc	/proc while it is made
 *	scratch/sys	/sys while it is made: only what a box is shown of its cgroup
 *	scratch/covers	what lies over files and directories there; read-only once that is so
 *
 * All return 0 or -errno.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { GUEST_DEVICES = 6 };

struct guest_device {
	const char *name; /* below /dev */
	uint32_t number;  /* major << 8 | minor */
};
extern const struct guest_device guest_devices[GUEST_DEVICES];

/* A box while it is built. The descriptors are owned by who uses this. */
struct guest {
	int scratch;
	int root; /* the box's tree; -1 until there is one */
	int proc, dev;
	bool trust_layer; /* see trust.h */
	bool is_new;	  /* no box has written into the tree */
	bool has_dev;	  /* the scratch came with a dev that has nodes */
};

#define GUEST_NONE ((struct guest){-1, -1, -1, -1, false, false, false})
void guest_done(struct guest *g); /* closes them; the mounts stay */

/* A detached scratch, whose top these ids own, or GUEST_OWN_UID: this process's. With ret_has_nodes
 * it gets device nodes of the box's own where this process may make some: on the host's, locks and
 * watches would reach from box to box and to the host. A descriptor, or -errno. */
#define GUEST_OWN_UID ((uid_t)-1)
#define GUEST_OWN_GID ((gid_t)-1)
int guest_scratch_new(uid_t uid, gid_t gid, bool *ret_has_nodes);

/* Mounts the scratch (g->scratch, or a new one) at the directory `place` (a descriptor, or AT_FDCWD
 * for the host's /dev, which goes with all else of the host), goes there and makes the directories
 * for dev and proc. */
int guest_scratch_make(struct guest *g, int place);

/* The nodes of a scratch, apart (GUEST_OWN_GID) or in its dev. That is this process's then, whose
 * id is none of the box's, and sticky: those of that group, which box root is in, make files there,
 * and what is there of others they can neither remove nor replace, with whatever capability.
 * -EPERM where this process may make none. */
int guest_dev_nodes(int scratch, gid_t gid);

struct guest_dev {
	bool has_nodes;	    /* the scratch has, or: */
	const int *devices; /* a detached mount of each, in the order of guest_devices */
	uint64_t mem_bytes; /* the box's memory: /dev/shm is half of it. 0: half of the machine's */
	bool single;	    /* only one id is mapped: there is no group tty */
};

/* The nodes, links, pts, shm and the shells' directory. */
int guest_dev_make(struct guest *g, const struct guest_dev *d);
int guest_dev_show(struct guest *g); /* at /dev */
/* Another size of its shm, as of a box with that memory. */
int guest_dev_resize(struct guest *g, uint64_t mem_bytes);

/* Also the covers, where the caller may add files of its own until they are held. */
int guest_proc_make(struct guest *g);
int guest_covers_hold(void); /* read-only from here on */
/* Nothing is to be seen of what tells about the host or reaches into its kernel. */
int guest_proc_mask(struct guest *g);
/* covers/name over proc/name; one that is not there is no error. */
int guest_proc_cover(const char *name);
/* path below /proc becomes read-only, with all beneath. One that is not there is no error. */
int guest_proc_read_only(struct guest *g, const char *path);
extern const char *const guest_proc_read_only_paths[]; /* NULL-terminated */
int guest_proc_show(struct guest *g);		       /* at /proc */

/* A mount of its own on the scratch that is to become /sys, with fs/cgroup in it; a descriptor. */
int guest_sys_make(struct guest *g);

/* Attaches a mount at a place of the box's tree, made where it is missing. */
int guest_attach(struct guest *g, int mount, const char *path, bool is_dir);
/* A small file over the image's own. A link there that leads nowhere is removed: an image's
 * resolv.conf is often one to what a service would have made. */
int guest_put_file(struct guest *g, const char *path, const char *text);
/* Another content for one of those, while the scratch is there. */
int guest_change_file(struct guest *g, const char *path, const char *text);

/* A file in the box's memory, read-only; number tells several apart. Its place is made where it is
 * missing. */
struct guest_secret {
	const char *path;
	const void *data;
	size_t len;
	unsigned mode;
	uid_t uid;
	gid_t gid;
};
int guest_put_secret(struct guest *g, int number, const struct guest_secret *s);

/* A program for the box to run, in a new directory `place` below the current one: a file system of
 * its own, since nothing on the scratch can be executed, and read-only. It is copied from the
 * descriptor, at most size_mib. */
int guest_put_program(const char *place, const char *name, int program, unsigned size_mib);

/* Where cove-ctl is in a box that has it. */
#define GUEST_CTL_DIR	  "/dev/cove-ctl"
#define GUEST_CTL_PROGRAM "cove-ctl"
enum { GUEST_CTL_MIB = 1 };

/* What /etc/hosts says in a box of that name. */
enum { GUEST_HOSTS_MAX = 192 };
void guest_format_hosts(char ret[GUEST_HOSTS_MAX], const char *name);

int guest_loopback_up(void);
