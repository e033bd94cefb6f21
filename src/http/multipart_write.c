/* Forms of several parts, written; see multipart.h. */
#include "http/multipart.h"

#include "base/str.h"
#include "http/text.h"

#include <string.h>

static bool is_control(char c)
{
	return (unsigned char)c < 0x20 || c == 0x7f;
}

static bool has_control(const char *s)
{
	while (*s && !is_control(*s))
		s++;
	return *s;
}

static bool is_boundary(const char *s)
{
	size_t n = strlen(s);

	for (size_t i = 0; i < n; i++) {
		if (!http_is((unsigned char)s[i], HTTP_PLAIN) && s[i] != '+')
			return false;
	}
	return n > 0 && n <= MULTIPART_BOUNDARY_MAX && !strchr(s, '~');
}

/* ; key="value", what ends a quoted text escaped, and control bytes for those who read no more. */
static int add_quoted(struct buf *to, const char *key, const char *value)
{
	int r = buf_printf(to, "; %s=\"", key);

	for (; *value && r == 0; value++) {
		if (is_control(*value))
			r = buf_printf(to, "%%%02X", (unsigned char)*value);
		else if (*value == '"' || *value == '\\')
			r = buf_printf(to, "\\%c", *value);
		else
			r = buf_append(to, value, 1);
	}
	return r < 0 ? r : buf_append(to, "\"", 1);
}

static int add_extended(struct buf *to, const char *key, const char *value)
{
	int r = buf_printf(to, "; %s*=UTF-8''", key);

	for (; *value && r == 0; value++) {
		if (http_is((unsigned char)*value, HTTP_PLAIN))
			r = buf_append(to, value, 1);
		else
			r = buf_printf(to, "%%%02X", (unsigned char)*value);
	}
	return r;
}

static int add_disposition(struct http_head *h, const struct multipart_part *part)
{
	const char *file = part->filename;
	struct buf value;
	int r;

	if (has_control(part->name) ||
	    (file && has_control(file) && !str_is_utf8(file, strlen(file))))
		return -EINVAL;
	/* At most three bytes for one, and twice that for a filename. */
	buf_init(&value, 64 + 6 * (strlen(part->name) + (file ? strlen(file) : 0)));
	r = buf_append_str(&value, "form-data");
	if (r == 0)
		r = add_quoted(&value, "name", part->name);
	if (r == 0 && file)
		r = add_quoted(&value, "filename", file);
	if (r == 0 && file && has_control(file))
		r = add_extended(&value, "filename", file);
	if (r == 0)
		r = buf_cstr(&value) ? http_head_add(h, "Content-Disposition", buf_cstr(&value))
				     : -ENOMEM;
	buf_done(&value);
	return r;
}

static int add_fields(struct http_head *h, const struct multipart_part *part)
{
	static const char *const written_here[] = {"content-disposition", "content-type",
						   "content-transfer-encoding", NULL};
	int r = add_disposition(h, part);

	if (r == 0 && part->content_type)
		r = http_head_add(h, "Content-Type", part->content_type);
	for (size_t i = 0; i < part->field_count && r == 0; i++) {
		if (http_name_among(part->fields[i].name, written_here))
			return -EINVAL;
		r = http_head_add(h, part->fields[i].name, part->fields[i].value);
	}
	return r;
}

int multipart_part_write(struct buf *out, const char *boundary, const struct multipart_part *part)
{
	size_t boundary_len = strlen(boundary), n;
	struct http_head h = {0};
	uint8_t *to;
	int r = is_boundary(boundary) ? add_fields(&h, part) : -EINVAL;

	if (r == 0) {
		n = strlen("--\r\n\r\n") + boundary_len + http_fields_size(&h);
		to = buf_reserve(out, n);
		r = to ? 0 : http_no_room(out, n);
	}
	if (r == 0) {
		to = mempcpy(to, "--", 2);
		to = mempcpy(to, boundary, boundary_len);
		to = mempcpy(to, "\r\n", 2);
		to = http_fields_write(&h, to);
		memcpy(to, "\r\n", 2);
		buf_commit(out, n);
	}
	http_head_done(&h);
	return r;
}

int multipart_part_end_write(struct buf *out)
{
	return buf_append(out, "\r\n", 2);
}

int multipart_end_write(struct buf *out, const char *boundary)
{
	return is_boundary(boundary) ? buf_printf(out, "--%s--\r\n", boundary) : -EINVAL;
}
