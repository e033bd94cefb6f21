/*
 * Fields of a struct as data: what kind of value lies where. One description serves every form that
 * the struct has: the messages of the wire (msg.c), the lines of the journal (keeper/journal.c) and
 * of the audit log (store/audit_row.c), and JSON.
 */
#pragma once

#include "wire/msg_list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum wire_field_kind {
	FIELD_END = 0,
	FIELD_U64,   /* an int64_t too, where it is not negative */
	FIELD_U32,   /* at most INT32_MAX; an int too */
	FIELD_BOOL,  /* a number; anything but 0 is true */
	FIELD_STATE, /* enum exec_state, by its word */
	FIELD_TEXT,  /* char[size], cut where it does not fit; empty is not sent */
	FIELD_STR,   /* const char *, borrowed */
	FIELD_LIST,  /* struct wire_list, borrowed */
};

struct wire_field {
	uint8_t kind;
	uint16_t offset, size;
};

/* The field of that name in struct tag. An enum would look like a number here: FIELD_STATE_OF. */
/* clang-format off */
#define FIELD_OF(tag, name) \
	{_Generic(((struct tag *)0)->name, uint64_t: FIELD_U64, int64_t: FIELD_U64, \
		uint32_t: FIELD_U32, int: FIELD_U32, bool: FIELD_BOOL, char *: FIELD_TEXT, \
		const char *: FIELD_STR, struct wire_list: FIELD_LIST), \
	 offsetof(struct tag, name), sizeof(((struct tag *)0)->name)}
#define FIELD_STATE_OF(tag, name) \
	{FIELD_STATE, offsetof(struct tag, name), sizeof(((struct tag *)0)->name)}

/* How JSON shows a field. */
enum wire_field_show {
	SHOW_SET = 0, /* left out where it is 0, empty or NULL */
	SHOW_ALWAYS,  /* as it is; NULL is null */
	SHOW_KNOWN,   /* null where it is 0 or empty */
	SHOW_COUNTED, /* null where it is WIRE_UNKNOWN */
	SHOW_IF,      /* null where the bool at if_offset is false */
	SHOW_US_AS_MS /* known, and rounded up: what ran used something */
};

/* With a name, for a form that has names. A table ends with one that has none. */
struct wire_named_field {
	const char *key;
	struct wire_field field;
	uint8_t show;
	uint16_t if_offset;
};
#define FIELD_SHOWN(tag, key, name, how) {key, FIELD_OF(tag, name), SHOW_##how, 0}
#define FIELD_NAMED(tag, name)	 FIELD_SHOWN(tag, #name, name, SET)
#define FIELD_ALWAYS(tag, name)	 FIELD_SHOWN(tag, #name, name, ALWAYS)
#define FIELD_KNOWN(tag, name)	 FIELD_SHOWN(tag, #name, name, KNOWN)
#define FIELD_COUNTED(tag, name) FIELD_SHOWN(tag, #name, name, COUNTED)
#define FIELD_IF(tag, name, has) {#name, FIELD_OF(tag, name), SHOW_IF, offsetof(struct tag, has)}
/* clang-format on */

struct json;
/* The members of an object: numbers, bools and texts. */
void wire_fields_json(struct json *j, const struct wire_named_field *fields, const void *of);

/* Of FIELD_U64 to FIELD_BOOL. wire_field_put_number: false if it does not fit. */
uint64_t wire_field_number(const struct wire_field *f, const void *of);
bool wire_field_put_number(const struct wire_field *f, void *to, uint64_t v);
/* Of FIELD_STATE to FIELD_STR; NULL for an empty text. wire_field_put_text points a FIELD_STR at
 * s, and is false for a word that is no state. */
const char *wire_field_text(const struct wire_field *f, const void *of);
bool wire_field_put_text(const struct wire_field *f, void *to, const char *s);
