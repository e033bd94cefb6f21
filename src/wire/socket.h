/*
 * A socket on this side, an id on the wire on the other: bytes both ways, bounded by credit.
 *
 *	socket -> DATA		as far as the other side's credit goes
 *	DATA -> socket		what it does not take waits, at most a window; then comes credit
 *	end of file <-> EOF	each way for itself; after both it is over
 *
 * A peer that has closed or reset takes no bytes any more: what is still meant for it is dropped,
 * and what it had said before is read, to its last byte, before the connection is cut.
 *
 * It neither watches its socket nor ends itself: the owner does, after each call, by what is told
 * here. Used by init for connections of the box and to its ports, by libcove for forwarded ports.
 */
#pragma once

#include "ev/ev.h"
#include "wire/link.h"

struct wire_socket {
	struct wire_link *link; /* borrowed */
	struct ev_io io;	/* io.fd is owned; watched by the owner */
	uint32_t id;
	uint8_t to_wire, from_wire; /* streams */
	struct wire_flow out, back;
	struct buf waiting; /* for the socket */
	uint32_t chunk;	    /* size of the next read */
	bool held;	    /* the socket is not to be touched yet: what comes waits */
	bool read_end;	    /* EOF was read and sent */
	bool wire_end;	    /* EOF came */
	bool shut;	    /* and was passed on */
	bool write_lost;    /* the peer takes nothing any more */
};

/* Takes fd, on failure too, and makes it non-blocking. to_wire is the stream that is sent. */
int wire_socket_init(struct wire_socket *s, struct wire_link *link, int fd, uint32_t id,
		     enum wire_stream to_wire);
/* Closes; the peer sees a reset unless it is over. Idempotent. */
void wire_socket_done(struct wire_socket *s);

/* All of these: 0, or -errno when the connection is to be cut: its peer is gone, the other side
 * broke a rule, or the link takes nothing any more (-ENOBUFS). */

/* What an event of the socket means, of what it was watched for. */
int wire_socket_event(struct wire_socket *s, uint32_t events);
/* Writes what waits, and passes the end on behind it. */
int wire_socket_write(struct wire_socket *s);
/* DATA, EOF or CREDIT. */
int wire_socket_frame(struct wire_socket *s, const struct wire_frame *f);

/* There is credit for what would be read. */
static inline bool wire_socket_may_read(const struct wire_socket *s)
{
	return !s->read_end && s->out.left > 0;
}
/* Watches for what can be done: writing where something waits and, if the owner has room on the
 * link, reading. With nothing to be done it is watched for nothing, which still tells of a reset;
 * only after our own end it is taken out of the loop, which the peer's would wake as long as bytes
 * before that wait for credit. */
int wire_socket_watch(struct wire_socket *s, struct ev *ev, bool has_room);
static inline bool wire_socket_is_over(const struct wire_socket *s)
{
	return s->read_end && s->shut;
}
