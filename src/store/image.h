/*
 * Images: a name, the layers that it is made of, and how programs are run in it. "host" is always
 * there and means this machine's own /usr below a small skeleton.
 *
 * images/<file> is the record, lines under a sum; <file> is the name with '/' written as '+'. A
 * name is a reference as registries have them ("python:3.12", "ghcr.io/acme/agent"), and ":latest"
 * at its end is left out. Two names may share layers; a layer goes when nothing refers to it any
 * more (refs.h). A box has its layers in its own record, so that an image which boxes use can be
 * replaced; it is not removed. (A box of an older Cove has only its image's name: then the image
 * stays as it is.)
 */
#pragma once

#include "base/err.h"
#include "base/limits.h"
#include "storage/ids.h"
#include "store/state.h"

#include <stdbool.h>
#include <stdint.h>

struct refs;

/* Some texts, borrowed, at most IMAGE_ITEMS_MAX of them. */
struct image_items {
	const char *at[IMAGE_ITEMS_MAX];
	size_t count;
};

/* How programs are run in it, as other tools' images say it too. NULL and 0: not said. */
struct image_config {
	const char *user; /* NAME, UID or UID:GID; NULL: root */
	const char *cwd;  /* absolute */
	const char *stop_signal;
	struct image_items env; /* NAME=VALUE */
	struct image_items entrypoint, cmd, shell;
	struct image_items labels;	   /* NAME=VALUE */
	struct image_items ports, volumes; /* "8080/tcp"; paths */
};

/* One step of how it was made, oldest first. */
struct image_step {
	uint64_t created_ms;
	bool empty; /* it made no layer */
	const char *by;
};

struct image {
	char name[IMAGE_NAME_MAX + 1];
	char id[65]; /* the config's digest; else of one layer that layer, of several a hash */
	const char *layers[IMAGE_LAYERS_MAX]; /* bottom first */
	size_t layer_count;
	struct image_config config;
	const char *platform;	   /* "linux/amd64"; NULL: this machine's */
	const char *digest;	   /* SHA-256 of its manifest in blobs/; NULL: none */
	const char *config_digest; /* of its config there; NULL: none */
	const char *source;	   /* where it came from; NULL: not known */
	struct image_step history[IMAGE_ITEMS_MAX];
	size_t history_count;
	bool is_host;
	uint64_t created_ms;
	uint64_t bytes; /* of all its layers; 0 for host */
	char *text;	/* owned: what it was read from; all texts point into it */
};

#define IMAGE_DEFAULT "base"
#define IMAGE_HOST    "host"
/* In the record of what came from a file, with its layers: no image can be called so. */
#define IMAGE_IMPORTED "(imported)"

/* Is it one, in its one spelling? image_name_clean drops "docker.io/", "library/" and ":latest"
 * first: docker.io/library/python:latest is python. */
int image_check_name(const char *name, struct err *e);
int image_name_clean(const char *name, char ret[IMAGE_NAME_MAX + 1], struct err *e);
/* The name of its file, of a clean name; '+' is in no name. */
void image_file_name(const char *name, char ret[IMAGE_NAME_MAX + 1]);

/* ERR_NOT_FOUND names the remedy (`cove image make`, `--image host`). "host" has no layer until
 * image_host_prepare. image_done also after a failure. */
int image_find(struct state *s, const char *name, struct image *ret, struct err *e);
void image_done(struct image *im);

/* All of them, "host" last. Free with image_list_free. */
int image_list(struct state *s, struct image **ret, size_t *ret_count, struct err *e);
void image_list_free(struct image *list, size_t count);

/* Under the layers' lock, its layers being in place: writes the record, durable, in place of one
 * that has the name, whose layers go if nothing else refers to them. ERR_CONFLICT names a box of an
 * older Cove that stands on it by name. The caller sweeps (layers_sweep) when the lock is free. */
int image_write(struct state *s, const struct image *im, struct err *e);
/* The same, but the old one's layers stay until `cove image gc`, for builds to find again. */
int image_write_keeping(struct state *s, const struct image *im, struct err *e);

/* Makes the image's directory tree from a tar stream (plain, no compression: the caller pipes it).
 * user may be NULL: the name of uid 1000 in the image, else root. */
int image_import(struct state *s, const struct ids *ids, const char *name, const char *user,
		 int tar_fd, struct err *e);

struct image_import_how {
	const char *user;   /* as above */
	const char *source; /* where it came from; NULL: nothing is kept about it */
	uint64_t bytes_max; /* that its files may hold; 0: LAYER_BYTES_MAX */
	const void *head;   /* bytes of the stream that come before those of tar_fd */
	size_t head_len;
	/* The stream is the canonical tar of a tree (layer_tar.h), so that what is made of it has
	 * the same one. Where owners cannot be kept (IDS_SINGLE) that does not follow. */
	bool is_canonical;
	/* In the process that unpacks, before the first byte. May be NULL. */
	int (*confine)(int root_fd, struct err *e);
	/* When all was read, before the image is: does whoever wrote the stream say that it is
	 * whole? r is what reading came to. May be NULL. */
	int (*on_end)(void *arg, int r, struct err *e);
	void *arg;
};
int image_import_stream(struct state *s, const struct ids *ids, const char *name,
			const struct image_import_how *how, int tar_fd, struct err *e);

/* A second name for the same image. What had that name before loses it; its layers stay until
 * `cove image gc`, even if it was the last. */
int image_tag(struct state *s, const struct ids *ids, const char *name, const char *tag,
	      struct err *e);

/* ERR_NOT_FOUND, or ERR_CONFLICT with the name of a box that uses it. Of "host" the skeleton goes,
 * with all that belongs to other ids; the next box that needs it makes it anew. */
int image_remove(struct state *s, const struct ids *ids, const char *name, struct err *e);

/* For refs_collect. */
int image_refs(struct state *s, struct refs *r, struct err *e);

/* The skeleton below --image host: /etc/passwd and friends, links, mount points. Made anew when
 * missing, or when the host's libraries, alternatives or certificates changed since. */
int image_host_prepare(struct state *s, const struct ids *ids, struct image *ret, struct err *e);
/* Deletes every skeleton; the caller knows that no box uses one. */
int image_host_drop(struct state *s, const struct ids *ids, struct err *e);
