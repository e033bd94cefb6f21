/* The JSON members of what is listed; see view.h. */
#include "core/view.h"

#include <string.h>

/* clang-format off */
#define A(tag, name) FIELD_ALWAYS(cove_##tag##_info, name)
#define K(tag, name) FIELD_KNOWN(cove_##tag##_info, name)
const struct wire_named_field view_box_fields[] = {
	A(box, name), A(box, state), A(box, outdated), A(box, image), K(box, workspace),
	K(box, session), K(box, owner), A(box, persistence), K(box, created_ms),
	K(box, started_ms), K(box, ended_ms), K(box, cause), K(box, by), K(box, keeper_pid), {0}};
const struct wire_named_field view_workspace_fields[] = {
	A(workspace, name), A(workspace, files), A(workspace, bytes), A(workspace, in_use), {0}};
const struct wire_named_field view_pool_fields[] = {
	A(pool, image), K(pool, owner), A(pool, size), A(pool, ready), K(pool, disk_bytes),
	A(pool, created_ms), A(pool, filled), K(pool, why), {0}};
const struct wire_named_field view_shell_fields[] = {
	A(shell, name), A(shell, state), K(shell, exec_id), A(shell, queued), K(shell, user),
	A(shell, login), K(shell, cwd), K(shell, pid), {0}};
const struct wire_named_field view_image_fields[] = {
	A(image, name), K(image, id), K(image, user), K(image, bytes), K(image, created_ms), {0}};
const struct wire_named_field view_snapshot_fields[] = {
	A(snapshot, name), A(snapshot, id), A(snapshot, box), K(snapshot, workspace),
	A(snapshot, storage), A(snapshot, created_ms), K(snapshot, bytes), K(snapshot, files),
	A(snapshot, layers), A(snapshot, left_out), A(snapshot, host_dirs),
	A(snapshot, copy_left_out), A(snapshot, frozen_us),
	A(snapshot, total_us), A(snapshot, unfrozen), A(snapshot, inside), K(snapshot, tags), {0}};
#define Q(name) FIELD_NAMED(cove_ask, name)
#define QA(name) FIELD_ALWAYS(cove_ask, name)
const struct wire_named_field view_ask_fields[] = {
	Q(box), QA(id), QA(host), QA(port), Q(method), Q(path), Q(query), Q(rule), Q(exec_id),
	QA(since_ms), QA(left_ms), QA(requests), {0}};
#define R(name) FIELD_NAMED(cove_audit_row, name)
const struct wire_named_field view_audit_fields[] = {
	FIELD_ALWAYS(cove_audit_row, time_ms), FIELD_ALWAYS(cove_audit_row, box),
	FIELD_ALWAYS(cove_audit_row, seq), R(kind), R(exec_id), R(host), R(port), R(method),
	R(path), R(rule), R(verdict), R(reason), R(address), R(status), R(bytes_up),
	R(bytes_down), R(duration_ms), R(count), R(credential), R(by), R(about), R(why), {0}};
const struct wire_named_field view_usage_fields[] = {
	A(usage, what), A(usage, count), A(usage, bytes), A(usage, shared_bytes),
	A(usage, reclaimable_bytes), {0}};
const struct wire_named_field view_wall_fields[] = {
	A(wall, name), A(wall, ready), A(wall, is_default), A(wall, is_min), A(wall, strength),
	A(wall, shared_kernel), K(wall, program), A(wall, is_old), K(wall, version),
	K(wall, start_us), A(wall, holds), K(wall, lacks), K(wall, remedy), {0}};
const struct wire_named_field view_key_fields[] = {
	A(key, name), A(key, id), A(key, created_ms), K(key, revoked_ms), A(key, damaged), {0}};
static const struct wire_named_field key_quotas[] = {
	K(key, boxes), K(key, mem_bytes), K(key, cpu_milli), K(key, disk_bytes),
	K(key, snapshots), K(key, images), {0}};
const struct wire_named_field view_image_step_fields[] = {
	FIELD_KNOWN(cove_image_step, created_ms), FIELD_ALWAYS(cove_image_step, bytes),
	FIELD_KNOWN(cove_image_step, layer), FIELD_ALWAYS(cove_image_step, by), {0}};
const struct wire_named_field view_policy_group_fields[] = {
	FIELD_ALWAYS(cove_policy_group, name), FIELD_ALWAYS(cove_policy_group, summary), {0}};
/* clang-format on */

char *cove_ask_json(const struct cove_ask *ask)
{
	return view_row_json(view_ask_fields, ask);
}

char *cove_audit_row_json(const struct cove_audit_row *row)
{
	return view_row_json(view_audit_fields, row);
}

/* clang-format off */
const struct wire_named_field view_webhook_fields[] = {
	A(webhook, id), A(webhook, url), K(webhook, owner), K(webhook, types), K(webhook, box),
	K(webhook, label), A(webhook, created_ms), A(webhook, cursor), A(webhook, delivered),
	A(webhook, failures), K(webhook, next_ms), K(webhook, disabled_ms), K(webhook, reason),
	{0}};
/* clang-format on */

/* Texts with a sign between, as an array. */
void view_words_json(struct json *j, const char *key, const char *text, char sign)
{
	json_key(j, key);
	json_array_begin(j);
	while (*text) {
		size_t n = strcspn(text, (const char[]){sign, 0});

		json_strn(j, text, n);
		text += n + (text[n] == sign);
	}
	json_array_end(j);
}

void view_key_more_json(struct json *j, const struct cove_key_info *k)
{
	view_words_json(j, "scopes", k->scopes, ',');
	json_key(j, "quotas");
	json_object_begin(j);
	wire_fields_json(j, key_quotas, k);
	json_object_end(j);
	view_words_json(j, "mounts", k->mounts, '\n');
}
