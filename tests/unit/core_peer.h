/*
 * A scripted keeper: the other end of a client's connection, in a process of its own. The test gets
 * a handle as if the box were up; the script says what the keeper says.
 */
#pragma once

#include "core/core.h"
#include "wire/msg.h"

struct peer {
	int fd;
	struct wire_decoder decoder;
	struct buf out;
	bool cancelled; /* a CANCEL came that was not expected */
};

/* Forks script(p, arg) as the keeper of a box that has already said HELLO. */
struct cove_box *peer_box(void (*script)(struct peer *p, void *arg), void *arg);

/* The same with all features of this Cove; before, it has none. */
struct cove_box *peer_box_of_today(void (*script)(struct peer *p, void *arg), void *arg);

/* For scripts. A connection that ends is the end of the script. */
struct wire_frame peer_expect(struct peer *p, enum wire_type type);
void peer_flush(struct peer *p);
void peer_entry(struct peer *p, uint32_t id, char type, const char *path, const char *target);
void peer_data(struct peer *p, uint32_t id, uint8_t stream, const void *data, size_t n);
void peer_send(struct peer *p, enum wire_type type, uint8_t stream, uint32_t id);
void peer_error(struct peer *p, uint32_t id, int code, const char *msg);
