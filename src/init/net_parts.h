/* The parts of the network in a box that only net.c puts together; see net.h. */
#pragma once

#include "init/conn.h"
#include "init/net.h"

#include <netinet/in.h>
#include <stdint.h>

/* An IPv4 or IPv6 address with its port. */
union net_addr {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* An id for NAME or CONNECT that nothing alive has. */
uint32_t init_net_id(struct init_net *net);

/* names.c: a name has one address of 198.18.0.0/15 for as long as it is used. */
struct names_entry;
struct names {
	struct names_entry *entries; /* owned; by number of the address */
	uint16_t *slots;	     /* owned */
	uint16_t oldest, newest;
	uint32_t count, slot_count, max;
};

void names_init(struct names *n, uint32_t max); /* at most INIT_NAMES_MAX */
void names_done(struct names *n);
/* The address of a name, in host order; a new one the first time, or that of another which was not
 * used for INIT_NAME_MS. -ENOSPC: all are in use. */
int names_give(struct names *n, const char *name, uint64_t now_ms, uint32_t *ret_addr);
/* A connection to an address that names_find knows begins, and has ended. */
void names_hold(struct names *n, uint32_t addr);
void names_release(struct names *n, uint32_t addr, uint64_t now_ms);
/* The name that an address was given out for, or NULL. */
const char *names_find(const struct names *n, uint32_t addr);
/* It is one that only names have. */
bool names_is_synthetic(uint32_t addr);

/* owner.c: the command that holds the other end of a connection, or 0. Never waits. */
struct owner {
	int diag_fd; /* owned; -1: there is none */
	int work_fd; /* borrowed; v2 work/ with a group e<ID> per command, or -1 */
	uint64_t last_group, last_id;
};

uint64_t owner_find(struct owner *o, const union net_addr *from, const union net_addr *to);

/* stub.c: the resolver. Takes both descriptors, on failure too. */
struct stub;
int stub_new(struct init_net *net, struct init *in, struct names *names, const int fds[2],
	     struct stub **ret);
bool stub_has(const struct stub *s, uint32_t id);
/* OK or ERROR of a NAME. False: none of its ids. */
bool stub_frame(struct stub *s, const struct wire_frame *f);
