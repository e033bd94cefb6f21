/*
 * What a server answers, into the structs of cove.h; see remote.h. The tables are those by which
 * libcove writes such objects (core/view.h), read the other way. Nothing of the answer is believed
 * to have the right type: what has not is as if it were not there.
 */
#include "base/base64.h"
#include "base/str.h"
#include "core/view.h"
#include "remote/remote.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *remote_text(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);

	return json_is_string(v) && strlen(json_string_value(v)) == json_string_length(v)
		       ? json_string_value(v)
		       : NULL;
}

uint64_t remote_number(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);

	return json_is_integer(v) && json_integer_value(v) > 0 ? (uint64_t)json_integer_value(v)
							       : 0;
}

bool remote_is(const json_t *o, const char *key)
{
	return json_is_true(json_object_get(o, key));
}

static void take_field(const json_t *o, const struct wire_named_field *f, void *ret)
{
	const json_t *v = json_object_get(o, f->key);
	bool is_there = v && !json_is_null(v), is_number = f->field.kind <= FIELD_BOOL;
	uint64_t number = 0;

	if (!is_number) {
		if (remote_text(o, f->key))
			(void)wire_field_put_text(&f->field, ret, remote_text(o, f->key));
		return;
	}
	if (json_is_boolean(v))
		number = json_is_true(v);
	else if (json_is_integer(v) && json_integer_value(v) >= 0)
		number = (uint64_t)json_integer_value(v);
	else
		is_there = false;
	if (f->show == SHOW_COUNTED && !is_there)
		number = WIRE_UNKNOWN;
	if (f->show == SHOW_US_AS_MS && number <= UINT64_MAX / 1000)
		number *= 1000;
	if (f->show == SHOW_IF)
		memcpy((char *)ret + f->if_offset, &is_there, sizeof(is_there));
	(void)wire_field_put_number(&f->field, ret, number);
}

void remote_take(const json_t *o, const struct wire_named_field *fields, void *ret)
{
	for (const struct wire_named_field *f = fields; f->key; f++)
		take_field(o, f, ret);
}

int remote_take_rows(const json_t *o, const char *key, const struct wire_named_field *fields,
		     size_t size, void **ret, struct err *e)
{
	const json_t *list = json_object_get(o, key);
	size_t count = json_array_size(list);
	char *rows;

	if (!json_is_array(list) || count > REMOTE_ROWS_MAX)
		return err_set(e, ERR_PROTOCOL, EPROTO, "the server's answer has no list '%s'",
			       key);
	rows = calloc(count + 1, size);
	if (!rows)
		return err_errno(e, ENOMEM, "keep the server's answer");
	for (size_t i = 0; i < count; i++)
		remote_take(json_array_get(list, i), fields, rows + i * size);
	*ret = rows;
	return (int)count;
}

void remote_take_joined(const json_t *list, char sign, char *ret, size_t size)
{
	size_t n = 0;

	ret[0] = 0;
	for (size_t i = 0; i < json_array_size(list) && n < size; i++) {
		const char *s = json_string_value(json_array_get(list, i));
		const char between[2] = {n > 0 ? sign : 0};

		if (s)
			n += (size_t)snprintf(ret + n, size - n, "%s%s", between, s);
	}
}

char *remote_take_bytes(const json_t *o, const char *key, const char *key64, size_t *ret_len)
{
	const json_t *text = json_object_get(o, key), *coded = json_object_get(o, key64);
	bool is_coded = json_is_string(coded);
	size_t n;
	ssize_t got;
	char *p;

	if (!is_coded && !json_is_string(text))
		return NULL;
	n = json_string_length(is_coded ? coded : text);
	p = malloc(n + 4);
	if (!p)
		return NULL;
	if (is_coded) {
		got = base64_decode(json_string_value(coded), n, (uint8_t *)p);
		n = got < 0 ? 0 : (size_t)got;
	} else {
		memcpy(p, json_string_value(text), n);
	}
	p[n] = 0;
	*ret_len = n;
	return p;
}

static int take_denials(const json_t *o, struct cove_result *ret)
{
	const json_t *list = json_object_get(o, "denied");
	size_t count = json_array_size(list);

	if (count == 0)
		return 0;
	if (count > REMOTE_ROWS_MAX || !(ret->denied = calloc(count, sizeof(*ret->denied))))
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		remote_take(json_array_get(list, i), view_denial_fields, &ret->denied[i]);
	ret->denied_count = count;
	return 0;
}

int remote_take_result(const json_t *o, bool output, struct cove_result *ret, struct err *e)
{
	static const char *const states[] = {"kept", "exited", "restarted", NULL};
	const char *shell = remote_text(o, "shell"), *cwd = remote_text(o, "cwd");
	int r = 0;

	*ret = (struct cove_result){0};
	if (!remote_text(o, "cause"))
		return err_set(e, ERR_PROTOCOL, EPROTO, "the server's answer is no result");
	remote_take(o, view_result_before, ret);
	remote_take(o, view_result_after, ret);
	ret->shell = NULL;
	for (size_t i = 0; states[i] && shell; i++)
		if (strcmp(shell, states[i]) == 0)
			ret->shell = states[i];
	ret->cwd = cwd ? strdup(cwd) : NULL;
	r = !cwd || ret->cwd ? take_denials(o, ret) : -ENOMEM;
	if (r == 0 && output) {
		ret->out = remote_take_bytes(o, "stdout", "stdout_base64", &ret->out_len);
		ret->err_out = remote_take_bytes(o, "stderr", "stderr_base64", &ret->err_len);
		r = ret->out && ret->err_out ? 0 : -ENOMEM;
	}
	if (r == 0)
		return 0;
	cove_result_free(ret);
	return err_errno(e, ENOMEM, "keep the command's result");
}
