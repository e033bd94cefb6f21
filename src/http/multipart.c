/*
 * Forms of several parts, read; see multipart.h.
 *
 * How it works
 *
 *	PREAMBLE -> MARK -> MARK_LF -> HEAD -> CONTENT -> MARK ...
 *		    MARK -> MARK_DASH -> END -> END_LF -> EPILOGUE
 *
 * MARK is behind a delimiter: CR LF, two dashes, the boundary. It begins with the only CR that it
 * has, so what looked like one and was not is content from its beginning, and the next can begin at
 * the byte that did not fit, at the earliest. Of a delimiter that is cut only the length is kept:
 * if it was none, those bytes are reported out of the delimiter itself.
 *
 * The first boundary may stand at the very beginning, so the end of a line is assumed before it. So
 * it is before content: a boundary there, without a line's end of its own, is the end of an empty
 * part for some and content for others. It is refused.
 */
#include "http/multipart.h"

#include "base/limits.h"
#include "base/str.h"
#include "http/text.h"

#include <stdlib.h>
#include <string.h>

enum { PREAMBLE, MARK, MARK_LF, MARK_DASH, HEAD, CONTENT, END, END_LF, EPILOGUE };
enum { MARK_CHARS = 4 }; /* before the boundary */

static int refuse(struct err *e, int status, const char *what)
{
	return http_refuse(e, -EBADMSG, status, "%s", what);
}

static int no_memory(struct err *e)
{
	return http_refuse(e, -ENOMEM, 500, "no memory for a form");
}

/* ---- values with parameters: TYPE; name=value; name="value" ---- */

struct form_param {
	const char *name, *value;
	size_t name_len, value_len;
	bool is_quoted; /* the value may have escapes */
};

static const char *skip_space(const char *p)
{
	return p + strspn(p, " \t");
}

/* The value's type is at the beginning, whatever its case; *ret_params is behind it. */
static bool has_type(const char *value, const char *type, const char **ret_params)
{
	size_t n = strcspn(value, "; \t");

	*ret_params = value + n;
	return http_token_is(value, n, type);
}

/* 1, and *at is behind it; 0 at the end; negative where it is bad. */
static int next_param(const char **at, struct form_param *ret, struct err *e)
{
	const char *p = skip_space(*at);

	if (!*p)
		return 0;
	if (*p != ';')
		return refuse(e, 400, "something before a parameter");
	p = skip_space(p + 1);
	*ret = (struct form_param){.name = p};
	while (http_is((unsigned char)*p, HTTP_TOKEN))
		p++;
	ret->name_len = (size_t)(p - ret->name);
	if (ret->name_len == 0 || *p != '=')
		return refuse(e, 400, "a parameter without a name or a value");
	ret->is_quoted = p[1] == '"';
	ret->value = p += ret->is_quoted ? 2 : 1;
	if (ret->is_quoted) {
		while (*p && *p != '"')
			p += *p == '\\' && (p[1] == '"' || p[1] == '\\') ? 2 : 1;
	} else {
		while (http_is((unsigned char)*p, HTTP_VISIBLE) && !strchr(";,\"", *p))
			p++;
	}
	ret->value_len = (size_t)(p - ret->value);
	if (ret->is_quoted ? *p != '"' : ret->value_len == 0)
		return refuse(e, 400, "a parameter with a bad value");
	*at = p + ret->is_quoted;
	return 1;
}

/* Without the escapes of quotes and backslashes; another backslash is itself, as those send it who
 * know no escapes. `to` has room for value_len and a NUL. */
static void copy_value(const struct form_param *param, char *to)
{
	const char *p = param->value, *end = p + param->value_len;

	while (p < end) {
		if (param->is_quoted && *p == '\\' && p + 1 < end && (p[1] == '"' || p[1] == '\\'))
			p++;
		*to++ = *p++;
	}
	*to = '\0';
}

static bool is_boundary(const char *s)
{
	size_t n = strlen(s);

	for (size_t i = 0; i < n; i++) {
		bool is_letter = http_is((unsigned char)s[i], HTTP_PLAIN) && s[i] != '~';

		if (!is_letter && !strchr("'()+,/:=? ", s[i]))
			return false;
	}
	return n > 0 && n <= MULTIPART_BOUNDARY_MAX && s[n - 1] != ' ';
}

int multipart_init(struct multipart *m, const struct http_head *h, unsigned parts_max,
		   struct err *e)
{
	const char *type = http_head_find(h, "content-type"), *at;
	char boundary[MULTIPART_BOUNDARY_MAX + 1] = "";
	struct form_param param;
	int r;

	if (!type || http_head_count(h, "content-type") != 1 ||
	    !has_type(type, "multipart/form-data", &at))
		return refuse(e, 415, "a body that is not multipart/form-data");
	while ((r = next_param(&at, &param, e)) == 1) {
		if (!http_token_is(param.name, param.name_len, "boundary"))
			continue;
		if (*boundary || param.value_len > MULTIPART_BOUNDARY_MAX)
			return refuse(e, 400, "a form with a bad boundary");
		copy_value(&param, boundary);
	}
	if (r < 0)
		return r;
	if (!is_boundary(boundary))
		return refuse(e, 400, "a form with a bad boundary");
	*m = (struct multipart){.count_max = parts_max, .state = PREAMBLE};
	m->matched = m->assumed = 2;
	memcpy(m->delimiter, "\r\n--", MARK_CHARS);
	m->delimiter_len = MARK_CHARS + strlen(boundary);
	memcpy(m->delimiter + MARK_CHARS, boundary, strlen(boundary) + 1);
	buf_init(&m->line, MULTIPART_HEAD_MAX);
	return 0;
}

static void forget_part(struct multipart *m)
{
	buf_clear(&m->line);
	http_head_done(&m->head);
	free(m->name);
	free(m->filename);
	m->name = m->filename = NULL;
	m->part = (struct multipart_part){0};
	m->lines = 0;
}

void multipart_done(struct multipart *m)
{
	forget_part(m);
	buf_done(&m->line);
}

/* ---- heads of parts ---- */

/* filename*=UTF-8'en'%e2%82%ac */
static int decode_extended(const struct form_param *param, char **ret, struct err *e)
{
	const char *p = param->value, *end = p + param->value_len;
	const char *language = memchr(p, '\'', param->value_len);
	const char *text =
		language ? memchr(language + 1, '\'', (size_t)(end - language - 1)) : NULL;
	struct buf out;
	int r;

	if (!text || param->is_quoted || !http_token_is(p, (size_t)(language - p), "utf-8"))
		return refuse(e, 400, "a filename* that is not in UTF-8");
	text++;
	buf_init(&out, param->value_len + 1);
	r = http_decode(text, (size_t)(end - text), '+', &out);
	if (r == 0 && !str_is_utf8(buf_data(&out), buf_len(&out)))
		r = -EINVAL;
	if (r == 0) {
		*ret = buf_cstr(&out) ? strdup(buf_cstr(&out)) : NULL;
		r = *ret ? 0 : -ENOMEM;
	}
	buf_done(&out);
	if (r == -EINVAL)
		return refuse(e, 400, "a filename* that is badly encoded");
	return r < 0 ? no_memory(e) : 0;
}

static int take_param(struct multipart *m, const struct form_param *param, char **extended,
		      struct err *e)
{
	bool is_name = http_token_is(param->name, param->name_len, "name");
	char **to = is_name ? &m->name : &m->filename;

	if (http_token_is(param->name, param->name_len, "filename*"))
		return *extended ? refuse(e, 400, "two names of one file")
				 : decode_extended(param, extended, e);
	if (!is_name && !http_token_is(param->name, param->name_len, "filename"))
		return 0;
	if (*to)
		return refuse(e, 400, "two names of one part");
	*to = malloc(param->value_len + 1);
	if (!*to)
		return no_memory(e);
	copy_value(param, *to);
	return 0;
}

static int parse_disposition(struct multipart *m, struct err *e)
{
	const char *value = http_head_find(&m->head, "content-disposition"), *at;
	char *extended = NULL;
	struct form_param param;
	int r;

	if (!value || http_head_count(&m->head, "content-disposition") != 1 ||
	    !has_type(value, "form-data", &at))
		return refuse(e, 400, "a part that is not form-data");
	while ((r = next_param(&at, &param, e)) == 1) {
		r = take_param(m, &param, &extended, e);
		if (r < 0)
			break;
	}
	if (r == 0 && !m->name)
		r = refuse(e, 400, "a part without a name");
	if (r < 0 || !extended) {
		free(extended);
		return r;
	}
	free(m->filename);
	m->filename = extended;
	return 0;
}

static int check_coding(const struct http_head *h, struct err *e)
{
	const char *coding = http_head_find(h, "content-transfer-encoding");

	if (!coding || http_name_is(coding, "binary") || http_name_is(coding, "8bit") ||
	    http_name_is(coding, "7bit"))
		return 0;
	return refuse(e, 415, "a part with a coding of its own");
}

/* m->line holds all lines of a head and the empty one. */
static int begin_part(struct multipart *m, struct multipart_event *ret, struct err *e)
{
	size_t n = buf_len(&m->line) - 2;
	struct http_head *h = &m->head;
	int r = http_head_reserve(h, m->lines, n + 1);

	if (r < 0)
		return no_memory(e);
	memcpy(h->text, buf_data(&m->line), n);
	h->text_len = n;
	buf_clear(&m->line);
	r = http_fields_parse(h, h->text, n, 400, e);
	if (r == 0)
		r = parse_disposition(m, e);
	if (r == 0)
		r = check_coding(h, e);
	if (r == 0 && http_head_count(h, "content-type") > 1)
		r = refuse(e, 400, "a part of two types");
	if (r < 0)
		return r;
	m->part = (struct multipart_part){.name = m->name,
					  .filename = m->filename,
					  .content_type = http_head_find(h, "content-type"),
					  .fields = h->fields,
					  .field_count = h->field_count};
	m->state = CONTENT;
	m->matched = m->assumed = 2;
	*ret = (struct multipart_event){.part = &m->part};
	return MULTIPART_PART;
}

/* Takes bytes up to the end of a line, or all. */
static int take_head(struct multipart *m, const uint8_t *p, size_t n, size_t *ret_used,
		     struct multipart_event *ret, struct err *e)
{
	const uint8_t *lf = memchr(p, '\n', n), *line;
	size_t take = lf ? (size_t)(lf - p) + 1 : n, len;
	int r = buf_append(&m->line, p, take);

	if (r == -ENOBUFS)
		return http_refuse(e, -EBADMSG, 431, "a part's head of more than %u bytes",
				   MULTIPART_HEAD_MAX);
	if (r < 0)
		return no_memory(e);
	*ret_used = take;
	if (!lf)
		return 0;
	line = buf_data(&m->line);
	len = buf_len(&m->line);
	if (len < 2 || line[len - 2] != '\r')
		return refuse(e, 400, "a line that ends in a bare LF");
	if (len == 2 || line[len - 3] == '\n')
		return begin_part(m, ret, e);
	if (++m->lines > MULTIPART_FIELDS_MAX)
		return http_refuse(e, -EBADMSG, 431, "more than %u fields of a part",
				   MULTIPART_FIELDS_MAX);
	return 0;
}

/* ---- delimiters, and what is between them ---- */

/* One byte at a delimiter's end, or behind the last one. */
static int take_mark(struct multipart *m, uint8_t c, struct multipart_event *ret, struct err *e)
{
	static const struct {
		char want;
		int next;
	} steps[] = {
		[MARK_LF] = {'\n', HEAD},
		[MARK_DASH] = {'-', END},
		[END] = {'\r', END_LF},
		[END_LF] = {'\n', EPILOGUE},
	};

	if (m->state == MARK && (c == '\r' || c == '-')) {
		m->state = c == '-' ? MARK_DASH : MARK_LF;
		return 0;
	}
	if (m->state == MARK || c != (uint8_t)steps[m->state].want)
		return refuse(e, 400, "something between a boundary and the end of its line");
	m->state = steps[m->state].next;
	if (m->state == HEAD && m->count++ >= m->count_max)
		return http_refuse(e, -EBADMSG, 413, "a form of more than %u parts", m->count_max);
	*ret = (struct multipart_event){0};
	return m->state == END ? MULTIPART_END : 0;
}

static int report(const struct multipart *m, const void *p, size_t n, struct multipart_event *ret)
{
	*ret = (struct multipart_event){.part = &m->part, .data = p, .len = n};
	return n > 0 && m->state == CONTENT ? MULTIPART_DATA : 0;
}

/* A whole delimiter was seen. */
static int end_content(struct multipart *m, struct multipart_event *ret, struct err *e)
{
	bool was_part = m->state == CONTENT;

	if (was_part && m->assumed)
		return refuse(e, 400, "a boundary within a line");
	m->matched = m->assumed = 0;
	m->state = MARK;
	*ret = (struct multipart_event){.part = &m->part};
	return was_part ? MULTIPART_PART_END : 0;
}

/* How much of p is before a delimiter, or before what may become one: *ret_matched bytes of it. */
static size_t find_delimiter(const struct multipart *m, const uint8_t *p, size_t n,
			     size_t *ret_matched)
{
	const uint8_t *end = p + n, *cr = p;

	*ret_matched = 0;
	while (cr < end && (cr = memchr(cr, '\r', (size_t)(end - cr)))) {
		size_t len = (size_t)(end - cr);

		len = len < m->delimiter_len ? len : m->delimiter_len;
		if (memcmp(cr, m->delimiter, len) == 0) {
			*ret_matched = len;
			return (size_t)(cr - p);
		}
		cr++;
	}
	return n;
}

static int take_content(struct multipart *m, const uint8_t *p, size_t n, size_t *ret_used,
			struct multipart_event *ret, struct err *e)
{
	size_t at = 0, len, begun;

	if (m->matched > 0) {
		while (at < n && m->matched < m->delimiter_len &&
		       p[at] == (uint8_t)m->delimiter[m->matched]) {
			at++;
			m->matched++;
		}
		*ret_used = at;
		if (m->matched == m->delimiter_len)
			return end_content(m, ret, e);
		if (at == n)
			return 0;
		begun = m->assumed;
		len = m->matched - begun;
		m->matched = m->assumed = 0;
		if (len > 0)
			return report(m, m->delimiter + begun, len, ret);
	}
	len = find_delimiter(m, p, n, &begun);
	/* What is behind content is looked at once more when that was reported. */
	*ret_used = len > 0 ? len : begun;
	if (len > 0)
		return report(m, p, len, ret);
	m->matched = begun;
	return begun == m->delimiter_len ? end_content(m, ret, e) : 0;
}

int multipart_feed(struct multipart *m, const void *p, size_t n, size_t *ret_used,
		   struct multipart_event *ret, struct err *e)
{
	const uint8_t *bytes = p;
	size_t used = 0;
	int r = 0;

	*ret_used = 0;
	while (r == 0 && used < n) {
		size_t took = 1;

		/* The part that ended was reported; now another begins. */
		if (m->state == MARK)
			forget_part(m);
		if (m->state == PREAMBLE || m->state == CONTENT)
			r = take_content(m, bytes + used, n - used, &took, ret, e);
		else if (m->state == HEAD)
			r = take_head(m, bytes + used, n - used, &took, ret, e);
		else if (m->state == EPILOGUE)
			took = n - used;
		else
			r = take_mark(m, bytes[used], ret, e);
		used += took;
	}
	if (r >= 0)
		*ret_used = used;
	return r;
}

int multipart_close(const struct multipart *m, struct err *e)
{
	if (m->state != END && m->state != EPILOGUE)
		return refuse(e, 400, "a form that ends before its last boundary");
	return 0;
}
