/*
 * The keeper's protocol core without a box: a scripted init and any number of clients at the ends
 * of socket pairs, a real event loop, logs in a temporary directory.
 */
#pragma once

#include "keeper/exec.h"

/* One end of a conversation: what the test says and hears. */
struct peer {
	int fd; /* owned, -1 when closed */
	struct wire_decoder decoder;
	struct buf out;
	bool ended; /* the keeper closed it */
	bool deaf;  /* the test does not read it */
};

enum { RIG_PEERS = 8 };

struct rig {
	struct ev *ev;
	struct keeper k;
	char path[64];
	int box_fd; /* owned */
	struct peer init;
	struct peer clients[RIG_PEERS];
	unsigned client_count;
	bool up, lost, first_gone;
	bool sync_hangs; /* rig_run does not wait for it */
	unsigned ends;	 /* how often the box was to be ended */
	char cause[64], by[64];
	bool remove;
	uint64_t grace_ms;
};

/* With hello, init's HELLO has been heard and one client is connected. */
void rig_init(struct rig *r, bool hello);
/* Forgets the core as kill -9 would and begins a new one over the same files. */
void rig_restart(struct rig *r);
void rig_done(struct rig *r);

/* A test with a rig and its first client. */
#define KEEPER_TEST(name)                                                                      \
	TEST_IN(name, (struct rig * r, struct peer * p), struct rig rig; rig_init(&rig, true); \
		body(&rig, &rig.clients[0]); rig_done(&rig);)

struct peer *rig_client(struct rig *r);
/* Lets the core do all it can. */
void rig_run(struct rig *r);

/* Queues a frame; rig_run or peer_next sends it. */
void peer_say(struct peer *p, enum wire_type type, uint8_t stream, uint32_t id, const void *data,
	      size_t n);
void peer_close(struct peer *p);
/* The next frame, or fails the test. Valid until the next call for this peer. */
struct wire_frame peer_next(struct rig *r, struct peer *p, enum wire_type type);
/* The same, decoded: how the request id ended. */
struct exec_record peer_exit(struct rig *r, struct peer *p, uint32_t id);
struct wire_error peer_error(struct rig *r, struct peer *p, uint32_t id);
/* Is there none? */
bool peer_silent(struct rig *r, struct peer *p);

/* Deletes /tmp/... */
void remove_temporary(const char *path);

/* Shortcuts. */
void say_credit(struct peer *p, uint32_t id, uint8_t stream, uint64_t bytes);
void say_started(struct rig *r, uint32_t id);
void say_exit(struct rig *r, uint32_t id, int code);
/* A client asks, init agrees: the command runs, STARTED was heard. Returns the exec id. */
uint32_t start_command(struct rig *r, struct peer *p, uint32_t id, const struct wire_exec *m);
struct wire_exec plain_command(void);
/* Hears DATA of a stream until n bytes came, all of them being `byte`, and gives credit back. */
void hear_bytes(struct rig *r, struct peer *p, uint8_t stream, uint8_t byte, size_t n);
