/* Lines of "key value"; see lines.h. */
#include "base/lines.h"

#include "base/crc.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool is_key(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!(s[i] >= 'a' && s[i] <= 'z') && s[i] != '_')
			return false;
	return n > 0;
}

int lines_put(struct buf *b, const char *key, const char *value)
{
	size_t before = buf_len(b);
	int r;

	if (!is_key(key, strlen(key)))
		return -EINVAL;
	r = buf_append_str(b, key);
	if (r == 0)
		r = buf_append(b, " ", 1);
	for (const char *p = value; *p && r == 0; p++) {
		if (*p == '\n')
			r = buf_append(b, "\\n", 2);
		else if (*p == '\\')
			r = buf_append(b, "\\\\", 2);
		else
			r = buf_append(b, p, 1);
	}
	if (r == 0)
		r = buf_append(b, "\n", 1);
	if (r < 0)
		b->len = before;
	return r;
}

int lines_put_u64(struct buf *b, const char *key, uint64_t value)
{
	char digits[24];
	size_t at = sizeof(digits) - 1;

	digits[at] = 0;
	do {
		digits[--at] = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	return lines_put(b, key, digits + at);
}

static void format_sum(char ret[LINES_SUM_BYTES + 1], const char *text, size_t len)
{
	snprintf(ret, LINES_SUM_BYTES + 1, "sum crc32c:%08x\n", crc32c(text, len));
}

int lines_begin_sum(struct buf *b)
{
	char line[LINES_SUM_BYTES + 1];

	format_sum(line, "", 0);
	return buf_append(b, line, LINES_SUM_BYTES);
}

void lines_end_sum(struct buf *b)
{
	char *text = (char *)b->data + b->start, line[LINES_SUM_BYTES + 1];

	format_sum(line, text + LINES_SUM_BYTES, buf_len(b) - LINES_SUM_BYTES);
	memcpy(text, line, LINES_SUM_BYTES);
}

int lines_check_sum(const char *text, size_t len)
{
	char line[LINES_SUM_BYTES + 1];

	if (len < 4 || memcmp(text, "sum ", 4) != 0)
		return 0;
	if (len < LINES_SUM_BYTES)
		return -EBADMSG;
	format_sum(line, text + LINES_SUM_BYTES, len - LINES_SUM_BYTES);
	return memcmp(text, line, LINES_SUM_BYTES) == 0 ? 1 : -EBADMSG;
}

void lines_init(struct lines *l, char *text, size_t len)
{
	*l = (struct lines){.text = text, .next = text};
	/* A NUL inside would hide what follows it: make it a line that cannot parse. */
	if (strlen(text) != len)
		l->next = NULL;
}

/* Undoes the escapes in place. False on one we never write. */
static bool unescape(char *s)
{
	char *to = s;

	for (; *s; s++) {
		if (*s != '\\') {
			*to++ = *s;
			continue;
		}
		s++;
		if (*s == 'n')
			*to++ = '\n';
		else if (*s == '\\')
			*to++ = '\\';
		else
			return false;
	}
	*to = 0;
	return true;
}

int lines_next(struct lines *l, const char **ret_key, const char **ret_value)
{
	char *line = l->next, *end, *space;

	if (!line)
		return -EBADMSG;
	if (!*line)
		return 0;
	end = strchr(line, '\n');
	if (!end)
		return -EBADMSG; /* a file cut short */
	*end = 0;
	space = strchr(line, ' ');
	if (!space || !is_key(line, (size_t)(space - line)) || !unescape(space + 1))
		return -EBADMSG;
	*space = 0;
	l->next = end + 1;
	*ret_key = line;
	*ret_value = space + 1;
	return 1;
}
