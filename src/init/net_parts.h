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

/* names.c: a name has one address of 198.18.0.0/15 for as long as the box lives. */
struct names {
	char **texts;	 /* owned; by number of the address */
	uint16_t *slots; /* owned; a hash of them: number + 1, 0 is free */
	uint32_t count, slot_count;
};

void names_init(struct names *n);
/* The address of a name, in host order; a new one the first time. -ENOSPC at INIT_NAMES_MAX. */
int names_give(struct names *n, const char *name, uint32_t *ret_addr);
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
