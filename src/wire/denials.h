/*
 * What was denied while a command ran, as its record carries it: a list of texts, one for each
 * denial, of tab-separated fields. A reader takes the fields it knows; more may follow one day.
 */
#pragma once

#include "wire/msg_list.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	DENIALS_MAX = 16,	  /* of one command; further ones are counted */
	DENIALS_BYTES_MAX = 4096, /* of all of them */
	DENIAL_TEXT_MAX = 1024,	  /* of one */
};

/* Strings are borrowed. */
struct wire_denial {
	const char *host; /* "": what was sent named none */
	uint64_t port;	  /* 0: a name was looked up */
	const char *method;
	const char *reason, *remedy;
	const char *why; /* NULL: of an older door */
	bool shared;	 /* several commands ran: it may be another's */
};

/* Appends one, unless the list has it. -ENOBUFS if there is no room for it. */
int wire_denials_add(struct buf *list, const struct wire_denial *d);
/* The next one, cut up in text. False after the last; one that is none is passed over. */
bool wire_denials_next(const struct wire_list *list, uint32_t *pos, char text[DENIAL_TEXT_MAX],
		       struct wire_denial *ret);
