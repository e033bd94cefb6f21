/*
 * The relay: every stream that passes through the keeper between two of its links.
 *
 *	kind     asks    answers  frames of its own   OK is     windows
 *	FILE     client  init     ENTRY               the end   WIRE_WINDOW
 *	PORT     client  init                         the start WIRE_NET_WINDOW
 *	SHELL    client  init     SHELL               the end   no bytes
 *	CONTROL  client  door     SAY                 the end   no bytes
 *	NAME     init    door                         the end   no bytes
 *	CONNECT  init    door                         the start WIRE_NET_WINDOW
 *
 * Ids: on the links of init and the door a stream has the same id, by which it is found. Init
 * chooses it (WIRE_NET_BIT), or, for what a client asks, the keeper (KEEPER_REQUEST_BIT). The
 * client has its own id for it.
 *
 * What an end may send: the frames of its kind (relay.c has the table), and bytes as far as the
 * other end gave credit. Credit goes through end to end, so what passes is bounded whoever lies.
 * The keeper disconnects a party that breaks a rule: a client's connection is closed, the door is
 * killed, and for init the box ends.
 *
 * The end: ERROR, CANCEL, OK where it is the end, EOF both ways where it is not. A file operation
 * is answered after CANCEL too. Frames for a stream that is over are dropped, since the other side
 * may not know yet. When a party goes, all its streams end: a client gets ERROR; init CANCEL, or
 * ERROR where it has no answer yet; what a client asked of init is cancelled.
 *
 * The bounds: each kind has a maximum for the box. Over it a client gets ERROR; an honest init
 * knows its own. What one client has open counts as its requests.
 */
#pragma once

#include "base/err.h"
#include "wire/link.h"

#include <stdbool.h>

struct keeper_client;
struct keeper;

enum keeper_relay_kind {
	RELAY_FILE,
	RELAY_PORT,
	RELAY_SHELL,
	RELAY_CONTROL,
	RELAY_NAME,
	RELAY_CONNECT,
	RELAY_KIND_COUNT
};
enum keeper_relay_party { PARTY_CLIENT, PARTY_INIT, PARTY_DOOR };
enum { RELAY_BUCKETS = 256 };

struct keeper_relay;

struct keeper_relays {
	struct keeper_relay *bucket[RELAY_BUCKETS]; /* owned; by id */
	unsigned count[RELAY_KIND_COUNT];
	uint32_t next_id;
	uint64_t up_bytes, down_bytes; /* of all connections so far, from and to the box */
};

/* FILE, PORT, SHELL or DOOR, which begins a stream; its id is free. */
void keeper_relay_ask(struct keeper_client *c, const struct wire_frame *f);
bool keeper_relay_has(const struct keeper_client *c, uint32_t id);
/* A frame that may belong to a stream of this client. */
void keeper_relay_from_client(struct keeper_client *c, const struct wire_frame *f);
void keeper_relay_from_init(struct keeper *k, const struct wire_frame *f);
void keeper_relay_from_door(struct keeper *k, const struct wire_frame *f);
void keeper_relay_client_gone(struct keeper_client *c);
/* Init, or the door, is gone: the other end of each of its streams gets the reason. */
void keeper_relays_end(struct keeper *k, enum keeper_relay_party gone, const struct err *why);
