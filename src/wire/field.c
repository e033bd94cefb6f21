/* Fields of a struct as data, and the words of an exec record; see field.h and exec_record.h. */
#include "wire/field.h"

#include "base/json.h"
#include "base/str.h"
#include "wire/exec_record.h"

#include <string.h>

_Static_assert(sizeof(enum exec_state) == sizeof(uint32_t), "a state is stored as a number");

static const char *const state_names[EXEC_STATE_COUNT] = {
	[EXEC_RUNNING] = "running",
	[EXEC_QUEUED] = "queued",
	[EXEC_DONE] = "done",
	[EXEC_INTERRUPTED] = "interrupted",
};

int exec_status(const struct exec_record *r)
{
	if (r->timed_out)
		return 124;
	if (r->has_exit)
		return r->exit_code & 0xff;
	return r->signal > 0 && r->signal < 128 ? 128 + r->signal : -1;
}

const char *exec_limit(const struct exec_record *r)
{
	static const char *const limits[][2] = {{"oom", "mem"},
						{"pids", "pids"},
						{"disk", "disk"},
						{"ttl", "ttl"},
						{"idle", "idle"}};

	if (r->timed_out)
		return "timeout";
	if (r->oom_killed)
		return "mem";
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
		if (strcmp(r->cause, limits[i][0]) == 0)
			return limits[i][1];
	return NULL;
}

const char *exec_state_name(enum exec_state state)
{
	return state_names[state];
}

bool exec_state_parse(const char *word, enum exec_state *ret)
{
	for (unsigned i = 0; i < EXEC_STATE_COUNT; i++) {
		if (strcmp(word, state_names[i]) == 0) {
			*ret = (enum exec_state)i;
			return true;
		}
	}
	return false;
}

const char *exec_shell_word(const struct exec_record *r)
{
	static const char *const words[] = {NULL, "kept", "exited", "restarted"};

	return r->shell_state <= SHELL_RESTARTED ? words[r->shell_state] : NULL;
}

uint64_t wire_field_number(const struct wire_field *f, const void *of)
{
	const char *at = (const char *)of + f->offset;
	uint64_t v = 0;
	uint32_t n;
	bool b;

	if (f->kind == FIELD_BOOL) {
		memcpy(&b, at, sizeof(b));
		return b;
	}
	if (f->kind == FIELD_U32) {
		memcpy(&n, at, sizeof(n));
		return n;
	}
	memcpy(&v, at, sizeof(v));
	return v;
}

bool wire_field_put_number(const struct wire_field *f, void *to, uint64_t v)
{
	char *at = (char *)to + f->offset;
	uint32_t n = (uint32_t)v;
	bool b = v != 0;

	if (f->kind == FIELD_U32 && v > INT32_MAX)
		return false;
	if (f->kind == FIELD_BOOL)
		memcpy(at, &b, sizeof(b));
	else if (f->kind == FIELD_U32)
		memcpy(at, &n, sizeof(n));
	else
		memcpy(at, &v, sizeof(v));
	return true;
}

const char *wire_field_text(const struct wire_field *f, const void *of)
{
	const char *at = (const char *)of + f->offset, *s;
	enum exec_state state;

	if (f->kind == FIELD_TEXT)
		return *at ? at : NULL;
	if (f->kind == FIELD_STATE) {
		memcpy(&state, at, sizeof(state));
		return exec_state_name(state);
	}
	memcpy(&s, at, sizeof(s));
	return s;
}

bool wire_field_put_text(const struct wire_field *f, void *to, const char *s)
{
	char *at = (char *)to + f->offset;
	enum exec_state state;

	if (f->kind == FIELD_STATE) {
		if (!exec_state_parse(s, &state))
			return false;
		memcpy(at, &state, sizeof(state));
	} else if (f->kind == FIELD_TEXT) {
		str_copy(at, f->size, s);
	} else {
		memcpy(at, &s, sizeof(s));
	}
	return true;
}

void wire_fields_json(struct json *j, const struct wire_named_field *fields, const void *of)
{
	for (const struct wire_named_field *f = fields; f->key; f++) {
		bool is_number = f->field.kind <= FIELD_BOOL;
		uint64_t number = is_number ? wire_field_number(&f->field, of) : 0;
		const char *text = is_number ? NULL : wire_field_text(&f->field, of);
		bool is_shown = number || text;

		if (f->show == SHOW_SET && !is_shown)
			continue;
		if (f->show == SHOW_ALWAYS && f->field.kind == FIELD_TEXT && !text)
			text = "";
		else if (f->show == SHOW_COUNTED)
			is_shown = number != WIRE_UNKNOWN;
		else if (f->show == SHOW_IF)
			memcpy(&is_shown, (const char *)of + f->if_offset, sizeof(is_shown));
		else if (f->show == SHOW_US_AS_MS)
			number = number / 1000 + (number % 1000 != 0);
		if (f->show != SHOW_ALWAYS && !is_shown)
			json_kv_str(j, f->key, NULL);
		else if (f->field.kind == FIELD_BOOL)
			json_kv_bool(j, f->key, number);
		else if (is_number)
			json_kv_u64(j, f->key, number);
		else
			json_kv_str(j, f->key, text);
	}
}
