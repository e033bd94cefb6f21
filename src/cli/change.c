/* Printing changes; see change.h. */
#include "cli/change.h"

#include "base/str.h"

#include <stdio.h>
#include <string.h>

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
