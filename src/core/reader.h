/*
 * Reading the trees of boxes, which are hostile: in a child that has the box's ids, can only read,
 * and only beneath the directories that it is given (Landlock), with a system-call filter of its
 * own and the one right to read files of all the box's ids. What it finds comes back over a pipe as
 * frames, which the caller bounds and checks as anything that a box had a hand in.
 */
#pragma once

#include "base/err.h"
#include "storage/ids.h"

#include <stddef.h>
#include <stdint.h>

enum { READER_FRAME_MAX = 128 << 10 };

struct tree_reader {
	const int *dirs; /* what may be read; -1 among them is none */
	size_t dir_count;
	const int *layers; /* new ones that it makes: it may write beneath them, too */
	size_t layer_count;
	/* In the child, which answers with reader_send and whose error the caller gets. */
	int (*run)(void *arg, int out, struct err *e);
	/* In the caller: -errno, with its sentence, ends it. */
	int (*on_frame)(void *arg, uint8_t type, const uint8_t *data, size_t len, struct err *e);
	void *arg;
};

/* Until the child has ended. Types of frames begin at 1. */
int reader_run(const struct ids *ids, const struct tree_reader *r, struct err *e);

/* Two parts as one frame. */
int reader_send(int out, uint8_t type, const void *head, size_t head_len, const void *data,
		size_t len);
