/*
 * System-call filters. What each allows is in the .syscalls files here; they
 * are compiled when Cove is built (make-filter.c), so loading one is a single system call.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The run time of the sanitizers reads its own process and makes more calls. */
#if defined(__SANITIZE_ADDRESS__)
#define FILTER_IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(undefined_behavior_sanitizer)
#define FILTER_IS_SANITIZED 1
#endif
#endif
#ifndef FILTER_IS_SANITIZED
#define FILTER_IS_SANITIZED 0
#endif

/* What a box has besides is a bit of its kind. */
enum filter_kind {
	FILTER_BOX,
	FILTER_BOX_SHARED = 1 << 0, /* a box with a writable directory of the host */
	FILTER_BOX_PTRACE = 1 << 1, /* its processes may trace each other */
	FILTER_BOX_SHARED_PTRACE = FILTER_BOX_SHARED | FILTER_BOX_PTRACE,
	FILTER_KEEPER,
	FILTER_KEEPER_ROOT, /* root's needs less: it deletes without the box's user namespace */
	FILTER_DOOR,	    /* the proxy: network, no files */
	FILTER_EXPAND,	    /* a decompressor: reads, writes, memory */
	FILTER_READER,	    /* of trees that boxes wrote: reads them, writes to a pipe */
	FILTER_WRITER,	    /* the same, and makes a layer of what it reads */
	FILTER_KIND_COUNT
};

/* What init adds to calls that are its own, in the last two registers, which the kernel does not
 * read for those calls. It is made up for every box: nothing else in the box can use them. */
enum { FILTER_SECRET_BYTES = 16 };

/* Loads the filter; it cannot be taken off again, and children have it. secret (may be NULL: those
 * calls are refused to all) is FILTER_SECRET_BYTES long. Needs no_new_privs or CAP_SYS_ADMIN in the
 * caller's user namespace. Returns 0 or -errno; -EINVAL or -ENOSYS: the kernel has no filters. */
int filter_load(enum filter_kind kind, const void *secret);

/* engine.c: that of a box, by init itself, inside a kernel of the wall's own. kind: FILTER_BOX and
 * its bits. */
int filter_load_engine(enum filter_kind kind);

/* How many calls it allows, with or without conditions. */
unsigned filter_allowed(enum filter_kind kind);

/* One instruction, as the kernel takes it. */
struct filter_op {
	uint16_t code;
	uint8_t jump_true, jump_false;
	uint32_t k;
};

struct filter_program {
	const struct filter_op *ops;
	unsigned count, allowed;
	/* Instructions that compare 4 bytes of the secret, in its order; 0: none. */
	unsigned secret_at[8];
};

/* Made by make-filter. */
extern const struct filter_program filter_programs[FILTER_KIND_COUNT];
/* Those of our own processes, from FILTER_KEEPER on. */
extern const struct filter_program filter_sanitized[FILTER_KIND_COUNT - FILTER_KEEPER];

/* The same for what a box has behind an engine. */
enum { FILTER_ENGINE_COUNT = FILTER_BOX_SHARED_PTRACE + 1 };
extern const struct filter_program filter_engine[FILTER_ENGINE_COUNT];

const struct filter_program *filter_program(enum filter_kind kind);

/* load.c */
int filter_load_program(const struct filter_program *p, const void *secret);
