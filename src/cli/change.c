/* Printing changes; see change.h. */
#include "cli/change.h"

#include "base/str.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

char change_letter(const struct cove_change *ch)
{
	return "AMD"[ch->kind];
}

static bool is_plain(const char *bytes, size_t len)
{
	for (size_t i = 0; i < len;) {
		uint32_t rune;
		size_t n = str_utf8((const uint8_t *)bytes + i, len - i, &rune);

		if (n == 0 || str_is_tricky(rune) || rune == '"' || rune == '\\')
			return false;
		i += n;
	}
	return true;
}

int change_put_path(struct buf *out, const char *prefix, const char *path)
{
	size_t len = strlen(path);
	int r;

	if (is_plain(path, len))
		return buf_printf(out, "%s%s", prefix, path);
	r = buf_printf(out, "\"%s", prefix);
	if (r == 0)
		r = str_escape(out, path, len);
	return r < 0 ? r : buf_append_str(out, "\"");
}

int change_put_shown(struct buf *out, const char *bytes, size_t len)
{
	int r = 0;

	for (size_t i = 0; i < len && r == 0;) {
		uint32_t rune = 0;
		size_t n = str_utf8((const uint8_t *)bytes + i, len - i, &rune);

		if (n > 0 && (rune == '\t' || !str_is_tricky(rune))) {
			r = buf_append(out, bytes + i, n);
			i += n;
		} else {
			n = n ? n : 1;
			for (size_t k = 0; k < n && r == 0; k++)
				r = buf_printf(out, "\\x%02x", (uint8_t)bytes[i + k]);
			i += n;
		}
	}
	return r;
}

struct change_lines change_count_lines(const struct cove_change *ch)
{
	struct change_lines n = {0};
	const char *at = ch->text, *end = ch->text + ch->text_len;

	while (ch->text && at < end) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));

		n.plus += *at == '+';
		n.minus += *at == '-';
		at = stop ? stop + 1 : end;
	}
	return n;
}

static const char *type_name(unsigned mode)
{
	return S_ISREG(mode)	? "file"
	       : S_ISDIR(mode)	? "directory"
	       : S_ISLNK(mode)	? "link"
	       : S_ISFIFO(mode) ? "fifo"
	       : S_ISSOCK(mode) ? "socket"
	       : S_ISCHR(mode)	? "character device"
	       : S_ISBLK(mode)	? "block device"
				: NULL;
}

static void put_side(struct json *j, const char *key, const struct cove_change_side *s)
{
	char mode[8];

	json_key(j, key);
	if (s->mode == 0) {
		json_nil(j);
		return;
	}
	snprintf(mode, sizeof(mode), "%04o", s->mode & 07777);
	json_object_begin(j);
	json_kv_str(j, "type", type_name(s->mode));
	json_kv_str(j, "mode", mode);
	json_kv_u64(j, "uid", s->uid);
	json_kv_u64(j, "gid", s->gid);
	json_kv_u64(j, "size", s->size);
	json_object_end(j);
}

/* A path is bytes; where they are no text they are given whole besides. */
void change_put_json(struct json *j, const struct cove_change *ch)
{
	static const char *const kinds[] = {"added", "changed", "removed"};
	static const char *const words[] = {"type", "mode", "owner", "content", "attributes"};
	size_t len = strlen(ch->path);

	json_object_begin(j);
	json_kv_str(j, "kind", kinds[ch->kind]);
	json_kv_str(j, "path", ch->path);
	if (!str_is_utf8(ch->path, len)) {
		json_key(j, "path_base64");
		json_base64(j, ch->path, len);
	}
	json_key(j, "what");
	json_array_begin(j);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (ch->what & 1u << i)
			json_str(j, words[i]);
	json_array_end(j);
	put_side(j, "before", &ch->before);
	put_side(j, "after", &ch->after);
	if (ch->deep)
		json_kv_bool(j, "deep", true);
	if (ch->text_kind == COVE_TEXT_LINES) {
		json_key(j, "text");
		json_strn(j, ch->text, ch->text_len);
	} else if (ch->text_kind != COVE_TEXT_NONE) {
		json_kv_bool(j, ch->text_kind == COVE_TEXT_BINARY ? "binary" : "large", true);
	}
	json_object_end(j);
}
