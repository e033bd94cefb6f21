/* Words and JSON for what records and keepers hold, shared by list, inspect, result and the CLI. */
#pragma once

#include "base/json.h"
#include "cove.h"
#include "store/record.h"
#include "wire/field.h"
#include "wire/msg.h"

const char *box_state_name(enum box_state state);
const char *persistence_name(enum persistence p);

/* Which request made the box (Idempotency-Key): a label that is never shown. */
#define CORE_REQUEST_LABEL "cove.request"
/* The member `labels`, an object, without that one. */
void core_put_labels(struct json *j, const struct spec *s);

/* One object of a table; owned, NULL without memory. */
char *view_row_json(const struct wire_named_field *fields, const void *row);

/* A number that may be unknown: null for 0. */
void view_known_u64(struct json *j, const char *key, uint64_t v);

/* The members of a command's object (struct cove_exec_info) and of a box's numbers. */
extern const struct wire_named_field view_exec_fields[], view_stats_fields[];
/* And of what is listed: struct cove_box_info and so on. */
extern const struct wire_named_field view_box_fields[], view_workspace_fields[],
	view_shell_fields[], view_image_fields[], view_pool_fields[], view_snapshot_fields[],
	view_webhook_fields[], view_ask_fields[], view_audit_fields[];
/* Of a command's result: before and after its output; and of what was denied meanwhile. */
extern const struct wire_named_field view_result_before[], view_result_after[],
	view_denial_fields[];
extern const struct wire_named_field view_usage_fields[], view_wall_fields[], view_key_fields[],
	view_image_step_fields[], view_policy_group_fields[];
/* "<key>": the texts of one that have a sign between. */
void view_words_json(struct json *j, const char *key, const char *text, char sign);
/* What else is in a key's object. */
void view_key_more_json(struct json *j, const struct cove_key_info *k);
/* One change, or one item of a merge, as an object. A path is bytes; where they are no text they
 * are given whole besides. And the members of a merge's object. */
void view_change_json(struct json *j, const struct cove_change *ch);
void view_merge_item_json(struct json *j, const struct cove_merge_item *i);
void view_merge_result_json(struct json *j, const struct cove_merge_result *r);
/* clang-format off */
#define VIEW_USED(tag) \
	FIELD_SHOWN(tag, "cpu_ms", cpu_us, US_AS_MS), FIELD_KNOWN(tag, mem_peak_bytes), \
	FIELD_COUNTED(tag, io_read_bytes), FIELD_COUNTED(tag, io_write_bytes)
/* clang-format on */

/* What a keeper says of its box's numbers. */
void view_stats_fill(struct cove_stats *ret, const struct wire_stats *m);
