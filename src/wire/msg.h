/*
 * What the control frames say: one struct and one field table per message.
 *
 * A message is a run of fields: tag (1 byte), length (4, little endian), value. A number is 8
 * bytes; a string ends with its only NUL; a list is strings one after the other. A missing field is
 * 0, NULL or empty; an unknown tag is skipped, so either side may be newer; a tag twice, a wrong
 * length or a NUL in the wrong place is -EBADMSG. Decoded strings and lists point into the frame.
 *
 * The conversation
 *
 *	HELLO            both ways, first thing; init once it can work. See hello.h.
 *	EXEC(id)         -> STARTED(id) | ERROR(id). A line whose shell is busy: QUEUED(id) before
 *	                 that, and EXIT(id) without STARTED if it is ended while it waits. Then
 *	                 DATA(id, 1|2)..., EXIT(id); a stream's EOF may come after EXIT when a
 *	                 background child holds it. The asker may send
 *	                 DATA(id, 0), EOF(id, 0), SIGNAL(id), RESIZE(id) at any time until EXIT.
 *	ATTACH(id)       client -> keeper, to a command: DATA(id, 1|2)..., then EXIT(id) if it
 *	                 follows, OK(id) otherwise; or ERROR(id). With input as EXEC(id).
 *	EXECS(id)        client -> keeper: INFO(id)..., then OK(id)
 *	STATUS(id)       client -> keeper: STATUS(id)
 *	STATS(id)        client -> keeper: STATS(id)
 *	STOP(id)         client -> keeper: OK(id) | ERROR(id), then the socket closes
 *	SUBSCRIBE(id)    client -> keeper: EVENT(id)..., then OK(id) at the end of the box
 *	FILE(id)         -> by operation, see enum wire_file_op and msg_tool.h; ends with OK(id) or
 *	                 ERROR(id), also after CANCEL(id): ERROR with ECANCELED unless it was done
 *	                 already.
 *	SHELL(id)        client -> init: SHELL(id)... of a list, then OK(id) | ERROR(id)
 *	PAUSE(id)        client -> keeper: OK(id) | ERROR(id). Keeper -> init with id 0, as a frozen
 *	                 box goes on: not answered.
 *	TIMES(id)        client -> keeper: OK(id) once it is on the disk | ERROR(id)
 *	NAME(id)         init -> door: OK(id) | ERROR(id): DENIED, NOT_FOUND, TIMEOUT
 *	CONNECT(id)      init -> door: OK(id) once bytes may flow | ERROR(id). Then DATA and EOF
 *	                 each way, in windows of WIRE_NET_WINDOW. It is over when both sides sent
 *	                 EOF; CANCEL(id) from either side, or ERROR(id) from the door, ends it at
 *	                 once. Bytes may come before OK: they wait.
 *	PORT(id)         client -> init: the same, the other way round.
 *	DOOR(id)         client -> door: SAY(id)..., then OK(id) | ERROR(id)
 *	CTL(id)          init -> keeper: CTL(id), whatever came of it. These ids are their own.
 *	DENIED           door -> keeper, with id 0, as it denies something: not answered
 *	CREDIT(id, s)    lets the sender of stream s go on. Each stream starts with WIRE_WINDOW.
 *
 * On the init link the id of a command is its exec id, ids with the top bit are file operations,
 * SHELL and PORT, and ids with only the second bit (WIRE_NET_BIT) are NAME and CONNECT, chosen by
 * init. The door's link has the same ids, and DOOR with the top bit. On a client link the client
 * chose the id and STARTED carries the exec id; EXIT is the last frame of a command there (EOF is
 * not passed on), and SIGNAL is answered by OK or ERROR only if it names an exec_id.
 */
#pragma once

#include "base/buf.h"
#include "wire/ctl.h"
#include "wire/frame.h"
#include "wire/msg_exec.h"
#include "wire/msg_file.h"
#include "wire/msg_list.h"
#include "wire/msg_net.h"
#include "wire/msg_tool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Raised with every mend of init, or of how a wall starts it, that a running box goes without until
 * it is started again. One from before there was such a number says 0.
 *	1	nothing that init holds leads out of the box
 */
#define WIRE_INIT_REVISION 1u

struct wire_hello {
	uint64_t lowest;	   /* version; before there was a range, the only one */
	uint64_t pid;		   /* keeper: its pid on the host */
	const char *name;	   /* keeper: the box */
	const char *notes;	   /* init: what it found missing, for `inspect`; lines */
	uint64_t revision;	   /* init: WIRE_INIT_REVISION when it was built */
	uint64_t highest;	   /* version; 0: as lowest */
	struct wire_list features; /* their names */
};

struct wire_error {
	uint64_t kind; /* enum err_kind */
	uint64_t code; /* errno */
	const char *msg;
};

struct wire_credit {
	uint64_t bytes;
};

#define WIRE_NET_BIT 0x40000000u /* in ids on the init link: the box asks for the network */

struct wire_status {
	uint64_t started_ms;
	uint64_t execs_running;
	uint64_t clients;
	uint64_t init_pid; /* on the host */
	const char *notes; /* what is not enforced and why; lines */
	const char *ids;   /* which ids the box has: range, subordinate, single */
	uint64_t paused;
	const char *storage; /* where its writes live: plain, loop, tmpfs */
	const char *network; /* redirect, proxy (variables only) or none */
	uint64_t door;	     /* 1: a door runs now */
	const char *walls; /* what stands between it and the kernel: seccomp, landlock...; lines */
	uint64_t init_revision; /* as init said in its HELLO */
	const char *pinned;	/* what of shared directories is read-only in it; lines */
};

/* All of the box, now. A number that this host cannot tell is 0, of disk and I/O WIRE_UNKNOWN; a
 * limit of 0 is none. */
struct wire_stats {
	uint64_t uptime_ms, paused;
	uint64_t cpu_us, cpu_limit_milli, throttled_us;
	uint64_t mem_bytes, mem_peak_bytes, mem_limit_bytes, oom_kills;
	uint64_t pids, pids_limit, pids_hits;
	uint64_t disk_bytes, disk_limit_bytes, disk_files, disk_files_limit;
	uint64_t io_read_bytes, io_write_bytes;
	uint64_t execs_running;
	uint64_t disk_own_limit_bytes; /* of disk_limit_bytes: without its workspace */
	uint64_t net_up_bytes, net_down_bytes, net_conns; /* through the door; connections now */
	/* Its helpers on the host. Door: of all that there were, and what the last one has now. */
	uint64_t keeper_cpu_us, keeper_mem_bytes, keeper_mem_limit_bytes;
	uint64_t door_cpu_us, door_mem_bytes, door_mem_limit_bytes;
	uint64_t keeper_cpu_limit_milli, door_cpu_limit_milli;
};

struct wire_pause {
	uint64_t on;
	uint64_t for_ms; /* keeper to init, as it goes on: how long it stood still */
	const char *by;	 /* who asked, for the record */
	/* 1: frozen for this connection only, until it says so or ends, and no longer than
	 * KEEPER_HOLD_MS; not for init. Others' requests wait, and the box is not paused. */
	uint64_t hold;
};

/* Of each 0: as it is. */
#define WIRE_TIMES_NONE UINT64_MAX
struct wire_times {
	uint64_t ttl_ms;  /* from now to its end */
	uint64_t idle_ms; /* without a command or a request */
};

struct wire_stop {
	const char *by;	   /* who asked, for the record: "cove stop", ... */
	uint64_t remove;   /* 1: the keeper also deletes the box before the socket closes */
	uint64_t grace_ms; /* SIGTERM to everything first; 0: SIGKILL at once */
	uint64_t rollback; /* 1: that is its cause, and not that it was stopped; 2: a merge is */
};

/* One pair per message: encode appends a whole frame, decode fills the struct from a payload. */
/* clang-format off */
#define WIRE_MESSAGES(X) \
	X(hello, WIRE_HELLO, wire_hello) X(error, WIRE_ERROR, wire_error) \
	X(credit, WIRE_CREDIT, wire_credit) X(exec, WIRE_EXEC, wire_exec) \
	X(started, WIRE_STARTED, wire_started) X(exit, WIRE_EXIT, exec_record) \
	X(signal, WIRE_SIGNAL, wire_signal) X(resize, WIRE_RESIZE, wire_resize) \
	X(file, WIRE_FILE, wire_file) X(entry, WIRE_ENTRY, wire_entry) \
	X(attach, WIRE_ATTACH, wire_attach) X(info, WIRE_INFO, exec_record) \
	X(status, WIRE_STATUS, wire_status) X(stop, WIRE_STOP, wire_stop) \
	X(pause, WIRE_PAUSE, wire_pause) X(stats, WIRE_STATS, wire_stats) \
	X(name, WIRE_NAME, wire_name) X(connect, WIRE_CONNECT, wire_connect) \
	X(port, WIRE_PORT, wire_port) X(door, WIRE_DOOR, wire_door) X(say, WIRE_SAY, wire_say) \
	X(cut, WIRE_SAY, wire_cut) X(ask, WIRE_SAY, wire_ask) \
	X(door_status, WIRE_SAY, wire_door_status) \
	X(queued, WIRE_QUEUED, wire_queued) X(subscribe, WIRE_SUBSCRIBE, wire_subscribe) \
	X(event, WIRE_EVENT, wire_event) X(denied, WIRE_DENIED, wire_denied) \
	X(shell, WIRE_SHELL, wire_shell) X(ctl, WIRE_CTL, wire_ctl) \
	X(ctl_answer, WIRE_CTL, wire_ctl_answer) X(times, WIRE_TIMES, wire_times) \
	X(match, WIRE_MATCH, wire_match) X(change, WIRE_CHANGE, wire_change) \
	X(summary, WIRE_SUMMARY, wire_summary)
/* clang-format on */

#define WIRE_DECLARE(name, frame_type, tag)                                    \
	int wire_##name##_encode(struct buf *out, uint32_t id, uint8_t stream, \
				 const struct tag *m);                         \
	int wire_##name##_decode(const struct wire_frame *f, struct tag *ret);
WIRE_MESSAGES(WIRE_DECLARE)
/* Over what is known already: members that the frame does not have stay. */
int wire_exit_merge(const struct wire_frame *f, struct exec_record *to);
