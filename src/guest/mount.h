/*
 * The descriptor-based mount calls, by number: neither musl nor older glibc names them. Each
 * returns a descriptor or 0, or -errno.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum mount_attr_flags {
	MA_RDONLY = 0x1,
	MA_NOSUID = 0x2,
	MA_NODEV = 0x4,
	MA_NOEXEC = 0x8,
};

/* A detached copy of the mount at a path (or of dir_fd itself with path ""). */
int mount_clone(int dir_fd, const char *path, bool recursive);

/* Sets attributes on a whole detached tree; with idmap_ns >= 0 also makes it id-mapped. The tree
 * becomes private: a copy of a mount that the host shares would otherwise get what is mounted there
 * later, without these attributes. */
int mount_set(int fd, uint64_t attrs, int idmap_ns);

/* A new filesystem: options are pairs of key and value (NULL: a flag), ended by a NULL key. */
int mount_new(const char *type, const char *const *options, uint64_t attrs);

/* A new filesystem at a place below the current directory, where no other process writes: one call
 * where mount_new takes many. MS_* flags, options as mount(8) has them. */
int mount_here(const char *type, const char *place, unsigned long flags, const char *options);
/* The place itself becomes a mount of its own, read-only, nosuid, nodev, noexec. */
int mount_read_only_here(const char *place);

/* Attaches a detached mount at path below dir_fd; path "" is dir_fd itself. */
int mount_attach(int fd, int dir_fd, const char *path);

/* The current directory becomes /. The old root ends up stacked on it and is taken off with all
 * that is mounted below it; it is checked that nothing is left above. */
int mount_pivot_here(void);
