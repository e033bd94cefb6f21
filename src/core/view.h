/* Words and JSON for what records and keepers hold, shared by list, inspect, result and the CLI. */
#pragma once

#include "base/json.h"
#include "cove.h"
#include "store/record.h"
#include "wire/field.h"
#include "wire/msg.h"

const char *box_state_name(enum box_state state);
const char *persistence_name(enum persistence p);
const char *expiry_name(enum expiry e);

/* One object of a table; owned, NULL without memory. */
char *view_row_json(const struct wire_named_field *fields, const void *row);

/* A text that may be missing: null for an empty one. */
void view_text(struct json *j, const char *key, const char *s);

/* A number that may be unknown: null for 0. */
void view_known_u64(struct json *j, const char *key, uint64_t v);

/* A number that may not be counted: null for COVE_UNKNOWN. */
void view_counted(struct json *j, const char *key, uint64_t v);

/* What a command used. */
void view_usage(struct json *j, uint64_t cpu_us, uint64_t mem_peak_bytes, uint64_t io_read_bytes,
		uint64_t io_write_bytes);
/* The members of one command's object. */
void view_exec(struct json *j, const struct cove_exec_info *x);
/* "exit_code": null where there is none. */
void view_exit_code(struct json *j, bool has_exit, int code);
/* What a keeper says of its box's numbers, and the members of their object. */
void view_stats_fill(struct cove_stats *ret, const struct wire_stats *m);
void view_stats(struct json *j, const struct cove_stats *s);
