/*
 * Protocol scripts for a server's end of a WebSocket: a client's bytes in, what was understood out,
 * as one text. Used by unit tests and by the fuzz target. The same bytes in other pieces must give
 * the same text.
 */
#pragma once

#include "http/ws_end.h"
#include "http_script.h"

/* How the bytes come and where answers go. */
struct ws_script {
	size_t message_max; /* as for ws_end_init */
	uint64_t cuts;	    /* as for http_script */
	size_t out_max;	    /* room for answers, at least WS_SCRIPT_OUT_LEAST */
	size_t close_after; /* we close when so many bytes were fed; SIZE_MAX: never */
};

/* Room for one control frame. */
enum { WS_SCRIPT_OUT_LEAST = 2 + WS_CONTROL_MAX };

/* Appends to said, for each event: "text<...>", "binary<...>" (a whole message, however it came),
 * "pong<...>", "closed 1000<...>"; at the end "refused 1002" or ".". What was answered is appended
 * to answers. */
void ws_script_run(const struct ws_script *s, const void *p, size_t n, struct buf *said,
		   struct buf *answers);

/* Appends a client's frame: the first byte as it is, the payload masked. */
void ws_script_frame(struct buf *to, uint8_t first, const void *p, size_t n);
