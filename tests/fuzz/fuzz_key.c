/*
 * API keys. The first byte chooses: a token of any bytes, which an empty directory of keys does not
 * know; a record, which when it parses formats to a text that parses to the same; lists of scopes
 * and quotas; a name, which, if a key may have it, comes back as it was and is no other key's.
 */
#include "fuzz.h"

#include "base/limits.h"
#include "store/image.h"
#include "store/key.h"
#include "store/secret.h"

static void check_token(const struct input *in)
{
	struct state none = {.home_fd = -1};
	struct err e = {0};
	struct key k;

	MUST(key_find(&none, in->p, in->n, &k, &e) < 0 && e.kind == ERR_NOT_FOUND);
	MUST(!k.text);
}

static void check_record(const struct input *in)
{
	char *text = input_text(in), *again;
	struct key one = {0}, two = {0};
	struct buf a, b;

	buf_init(&a, 2 * KEY_RECORD_MAX);
	buf_init(&b, 2 * KEY_RECORD_MAX);
	if (key_parse(&one, text, strlen(text)) == 0) {
		MUST(one.name[0] && one.scopes);
		MUST(key_format(&one, &a) == 0);
		again = strdup(buf_cstr(&a));
		MUST(again && key_parse(&two, again, buf_len(&a)) == 0);
		MUST(key_format(&two, &b) == 0);
		must_equal(&a, &b);
		free(again);
	}
	buf_done(&a);
	buf_done(&b);
	free(text);
}

static void check_lists(const struct input *in)
{
	char *text = input_text(in), *other = input_text(in);
	struct key k = {0};
	struct err e = {0};

	if (key_take_scopes(&k, text, &e) == 0)
		MUST(k.scopes || k.mount_count);
	else
		MUST(e.kind != ERR_NONE && e.msg[0]);
	for (size_t i = 0; i < k.mount_count; i++)
		MUST(k.mounts[i][0] == '/' && key_may_mount(&k, k.mounts[i]));
	if (key_take_quotas(&k, other, &e) < 0)
		MUST(e.kind != ERR_NONE && e.msg[0]);
	free(other);
	free(text);
}

static void check_name(struct input *in)
{
	enum key_kind kind = (enum key_kind)(input_byte(in) % (KEY_OF_SECRET + 1));
	char *name = input_text(in), full[KEY_NAME_SIZE];
	const char *out;
	struct err e = {0};

	if (key_name_in("0123abcd", kind, name, full, &e) == 0) {
		out = key_name_out("0123abcd", kind, full);
		MUST(out && (kind == KEY_OF_IMAGE || strcmp(out, name) == 0));
		MUST(!key_name_out("0123abce", kind, full));
		MUST(kind == KEY_OF_IMAGE    ? image_check_name(full, NULL) == 0
		     : kind == KEY_OF_SECRET ? secret_is_name(full)
					     : state_check_name("box", full, NULL) == 0);
	} else {
		MUST(e.kind != ERR_NONE && e.msg[0]);
	}
	out = key_name_out("0123abcd", kind, name);
	MUST(!out || (out == name + KEY_ID_SIZE && *out));
	free(name);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct input in = {p, n};

	switch (input_byte(&in) % 4) {
	case 0:
		check_token(&in);
		break;
	case 1:
		check_record(&in);
		break;
	case 2:
		check_lists(&in);
		break;
	default:
		check_name(&in);
	}
	return 0;
}
