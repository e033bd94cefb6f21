/* Parts of a Dockerfile's lines; see parts.h. */
#include "build/parts.h"

#include "base/limits_build.h"
#include "base/str.h"
#include "build/dockerfile.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

const char *df_flag_word(const char *p, struct buf *word, int *ret)
{
	char quote = 0;

	*ret = 0;
	for (; *p && *ret == 0; p++) {
		if (!quote && strchr(DF_SPACES, *p))
			break;
		if (quote ? *p == quote : (*p == '"' || *p == '\'')) {
			quote = quote ? 0 : *p;
			continue;
		}
		if (*p == '\\' && !*++p)
			break;
		*ret = buf_append(word, p, 1);
	}
	return p;
}

int df_split_spaces(const char *text, struct build_words *ret)
{
	int r = 0;

	while (r == 0 && *(text += strspn(text, DF_SPACES))) {
		size_t n = strcspn(text, DF_SPACES);

		r = build_words_addn(ret, text, n);
		text += n;
	}
	return r;
}

/* The end of the word at p. */
static const char *word_end(const char *p, char escape)
{
	char quote = 0;

	for (; *p && (quote || !strchr(DF_SPACES, *p)); p++) {
		if (*p == escape && quote != '\'') {
			if (!p[1])
				return p + 1;
			p++;
		} else if (quote ? *p == quote : (*p == '"' || *p == '\'')) {
			quote = quote ? 0 : *p;
		}
	}
	return p;
}

int df_split_words(const char *text, char escape, struct build_words *ret)
{
	int r = 0;

	while (r == 0 && *(text += strspn(text, DF_SPACES))) {
		const char *end = word_end(text, escape);

		r = build_words_addn(ret, text, (size_t)(end - text));
		text = end;
	}
	return r;
}

bool df_directive(const char *p, size_t n, char ret_name[16], char ret_value[256])
{
	const char *end = p + n;
	size_t len = 0;

	if (n == 0 || *p++ != '#')
		return false;
	while (p < end && isspace((unsigned char)*p))
		p++;
	if (p == end || !isalpha((unsigned char)*p))
		return false;
	for (; p < end && isalnum((unsigned char)*p); p++)
		if (len < 15)
			ret_name[len++] = (char)tolower((unsigned char)*p);
	ret_name[len] = 0;
	while (p < end && isspace((unsigned char)*p))
		p++;
	if (p == end || *p++ != '=')
		return false;
	while (p < end && isspace((unsigned char)*p))
		p++;
	while (end > p && isspace((unsigned char)end[-1]))
		end--;
	len = (size_t)(end - p) < 255 ? (size_t)(end - p) : 255;
	memcpy(ret_value, p, len);
	ret_value[len] = 0;
	return len > 0;
}

/* ---- JSON ---- */

static const char *skip_spaces(const char *p)
{
	return p + strspn(p, " \t\r\n");
}

static int hex4(const char *p, uint32_t *ret)
{
	*ret = 0;
	for (int i = 0; i < 4; i++) {
		const char *digits = "0123456789abcdef", *at;

		if (!p[i] || !(at = strchr(digits, tolower((unsigned char)p[i]))))
			return -EINVAL;
		*ret = *ret << 4 | (uint32_t)(at - digits);
	}
	return 0;
}

static int put_rune(struct buf *b, uint32_t c)
{
	uint8_t out[4];
	size_t n;

	if (c < 0x80) {
		out[0] = (uint8_t)c;
		n = 1;
	} else if (c < 0x800) {
		out[0] = (uint8_t)(0xc0 | c >> 6);
		n = 2;
	} else if (c < 0x10000) {
		out[0] = (uint8_t)(0xe0 | c >> 12);
		n = 3;
	} else {
		out[0] = (uint8_t)(0xf0 | c >> 18);
		n = 4;
	}
	for (size_t i = 1; i < n; i++)
		out[i] = (uint8_t)(0x80 | (c >> 6 * (n - 1 - i) & 0x3f));
	return buf_append(b, out, n);
}

/* Behind "\u"; a second half may follow. A half alone is U+FFFD. */
static int take_unicode(const char **p, struct buf *b)
{
	uint32_t c, low;

	if (hex4(*p, &c) < 0 || c == 0)
		return -EINVAL;
	*p += 4;
	if (c >= 0xd800 && c < 0xdc00 && (*p)[0] == '\\' && (*p)[1] == 'u' &&
	    hex4(*p + 2, &low) == 0 && low >= 0xdc00 && low < 0xe000) {
		*p += 6;
		return put_rune(b, 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00));
	}
	return put_rune(b, c >= 0xd800 && c < 0xe000 ? 0xfffd : c);
}

/* At the opening quote. */
static int take_string(const char **at, struct buf *b)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *p = *at + 1, *which;
	int r = 0;

	while (r == 0 && *p != '"') {
		if ((unsigned char)*p < 0x20)
			return -EINVAL;
		if (*p != '\\') {
			r = buf_append(b, p++, 1);
			continue;
		}
		p += 2;
		if (!p[-1])
			return -EINVAL;
		if (p[-1] == 'u')
			r = take_unicode(&p, b);
		else if ((which = strchr(from, p[-1])))
			r = buf_append(b, &to[which - from], 1);
		else
			return -EINVAL;
	}
	*at = p + 1;
	return r;
}

/* A number, true, false or null: JSON, and no string. */
static bool skip_scalar(const char **p)
{
	size_t n = strspn(*p, "-+.0123456789eE");

	for (size_t i = 0; i < 3 && n == 0; i++) {
		static const char *const names[] = {"true", "false", "null"};

		if (str_starts(*p, names[i]))
			n = strlen(names[i]);
	}
	*p += n;
	return n > 0;
}

static int take_items(const char *p, struct build_words *ret)
{
	bool strings_only = true;

	p = skip_spaces(p + 1);
	if (*p == ']')
		return *skip_spaces(p + 1) ? -EINVAL : 0;
	for (;;) {
		struct buf b;
		int r = 0;

		buf_init(&b, DOCKERFILE_MAX);
		if (*p == '"')
			r = take_string(&p, &b);
		else if (skip_scalar(&p))
			strings_only = false;
		else
			r = -EINVAL;
		if (r == 0)
			r = build_words_addn(ret, buf_len(&b) ? (const char *)buf_data(&b) : "",
					     buf_len(&b));
		buf_done(&b);
		if (r < 0)
			return r;
		p = skip_spaces(p);
		if (*p != ',')
			break;
		p = skip_spaces(p + 1);
	}
	if (*p != ']' || *skip_spaces(p + 1))
		return -EINVAL;
	return strings_only ? 0 : -EBADMSG;
}

int df_json_words(const char *text, struct build_words *ret)
{
	struct build_words words = {0};
	int r;

	text = skip_spaces(text);
	r = *text == '[' ? take_items(text, &words) : -EINVAL;
	if (r < 0)
		build_words_done(&words);
	else
		*ret = words;
	return r;
}

/* ---- heredocs ---- */

/* A word without its quotes and escapes; *ret_quoted where it had any. */
static char *unquote(const char *p, size_t n, bool *ret_quoted)
{
	char *out = malloc(n + 1), quote = 0;
	size_t len = 0;

	*ret_quoted = false;
	for (size_t i = 0; out && i < n; i++) {
		if (p[i] == '\\' && quote != '\'' && i + 1 < n) {
			*ret_quoted = true;
			i++;
		} else if (quote ? p[i] == quote : (p[i] == '"' || p[i] == '\'')) {
			*ret_quoted = true;
			quote = quote ? 0 : p[i];
			continue;
		}
		out[len++] = p[i];
	}
	if (out)
		out[len] = 0;
	return out;
}

static bool is_closed(const char *p, size_t n)
{
	char quote = 0;

	for (size_t i = 0; i < n; i++) {
		if (p[i] == '\\' && quote != '\'')
			i++;
		else if (quote ? p[i] == quote : (p[i] == '"' || p[i] == '\''))
			quote = quote ? 0 : p[i];
	}
	return !quote;
}

/* 1 and the mark that a word is, 0 if it is none. */
static int mark_of(const char *p, size_t n, struct df_mark *ret)
{
	const char *end = p + n;
	bool quoted;

	while (p < end && isdigit((unsigned char)*p))
		p++;
	if (end - p < 3 || p[0] != '<' || p[1] != '<')
		return 0;
	p += 2;
	ret->chomp = *p == '-';
	p += ret->chomp;
	if (p == end || memchr(p, '<', (size_t)(end - p)))
		return 0;
	ret->name = unquote(p, (size_t)(end - p), &quoted);
	if (!ret->name)
		return -ENOMEM;
	ret->expand = !quoted;
	if (*ret->name)
		return 1;
	free(ret->name);
	return 0;
}

int df_find_marks(const char *text, struct df_mark *ret)
{
	int count = 0, r = 0;

	while (r >= 0 && *(text += strspn(text, DF_SPACES))) {
		const char *end = word_end(text, '\\');
		struct df_mark mark;

		r = is_closed(text, (size_t)(end - text)) ? 0 : -EINVAL;
		if (r == 0)
			r = mark_of(text, (size_t)(end - text), &mark);
		if (r > 0 && count == (int)DOCKERFILE_HEREDOCS_MAX) {
			free(mark.name);
			r = -E2BIG;
		}
		if (r > 0)
			ret[count++] = mark;
		text = end;
	}
	if (r < 0)
		df_marks_done(ret, (size_t)count);
	return r < 0 ? r : count;
}

void df_marks_done(struct df_mark *marks, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(marks[i].name);
}

bool df_is_mark(const char *text)
{
	struct df_mark mark;
	size_t n = strlen(text);

	if (*word_end(text, '\\') || mark_of(text, n, &mark) <= 0)
		return false;
	free(mark.name);
	return true;
}
