/*
 * The forms of a value; see redact.h.
 *
 * Base64 turns three bytes into four letters, so what stands before a value decides at which of
 * three alignments it begins. For each of them the letters that depend on the value alone are a
 * form: the first ones, and the last, are shared with the neighbours and left out.
 */
#include "door/redact.h"

#include "base/base64.h"
#include "base/control.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	DERIVED_MIN = 6, /* letters: shorter ones would be found everywhere */
	FORM_GROWTH = 6, /* a byte as \u00XX */
	HOLD_CLASS = 64, /* so many lengths look the same */
};

static int add_form(struct redact *r, const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < r->count; i++)
		if (r->forms[i].len == n && memcmp(r->forms[i].data, p, n) == 0)
			return 0;
	return secret_init(&r->forms[r->count++], p, n);
}

/* Room for the longest form. */
static size_t room_for(size_t n)
{
	return FORM_GROWTH * n + 16;
}

static int add_base64(struct redact *r, const uint8_t *value, size_t n, uint8_t *padded,
		      uint8_t *out)
{
	int rc = 0;

	for (int url = 0; url < 2 && rc == 0; url++)
		for (size_t before = 0; before < 3 && rc == 0; before++) {
			/* Letters that also hold bits of what stands before or after. */
			size_t skip = before == 0 ? 0 : before + 1;
			size_t bits = 8 * (before + n), len = bits / 6;

			memset(padded, 0, before);
			memcpy(padded + before, value, n);
			(void)base64_encode(padded, before + n, url, out);
			if (len >= skip + DERIVED_MIN)
				rc = add_form(r, out + skip, len - skip);
		}
	return rc;
}

static size_t put_percent(uint8_t *out, uint8_t c, bool lower)
{
	const char *digits = lower ? "0123456789abcdef" : "0123456789ABCDEF";

	out[0] = '%';
	out[1] = (uint8_t)digits[c >> 4];
	out[2] = (uint8_t)digits[c & 15];
	return 3;
}

/* also: what else stays as it is; writers differ in that. */
static int add_percent(struct redact *r, const uint8_t *value, size_t n, uint8_t *out,
		       const char *also, bool lower)
{
	size_t len = 0;

	for (size_t i = 0; i < n; i++) {
		uint8_t c = value[i];
		bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
			     (c >= 'A' && c <= 'Z') || (c && strchr("-._~", c)) ||
			     (c && strchr(also, c));

		if (plain)
			out[len++] = c;
		else
			len += put_percent(out + len, c, lower);
	}
	return add_form(r, out, len);
}

static size_t put_unicode(uint8_t *out, uint8_t c)
{
	memcpy(out, "\\u00", 4);
	out[4] = (uint8_t) "0123456789abcdef"[c >> 4];
	out[5] = (uint8_t) "0123456789abcdef"[c & 15];
	return 6;
}

/* also: what is escaped beyond what must be: the slash by some, what HTML minds by others. */
static int add_json(struct redact *r, const uint8_t *value, size_t n, uint8_t *out,
		    const char *also)
{
	static const char controls[] = "\b\t\n\f\r", letters[] = "btnfr";
	size_t len = 0;

	for (size_t i = 0; i < n; i++) {
		uint8_t c = value[i];
		const char *control = c ? strchr(controls, c) : NULL;

		if (control) {
			out[len++] = '\\';
			out[len++] = (uint8_t)letters[control - controls];
		} else if (c < 0x20 || (c != '/' && strchr(also, c))) {
			len += put_unicode(out + len, c);
		} else {
			if (c == '"' || c == '\\' || (c == '/' && strchr(also, c)))
				out[len++] = '\\';
			out[len++] = c;
		}
	}
	return add_form(r, out, len);
}

static int add_texts(struct redact *r, const uint8_t *value, size_t n, uint8_t *out)
{
	static const char *const escaped[] = {"", "/", "<>&"}, *const plain[] = {"", "/", "!'()*"};
	int rc = add_form(r, value, n);

	for (size_t i = 0; i < sizeof(escaped) / sizeof(escaped[0]) && rc == 0; i++)
		rc = add_json(r, value, n, out, escaped[i]);
	for (size_t i = 0; i < 2 * sizeof(plain) / sizeof(plain[0]) && rc == 0; i++)
		rc = add_percent(r, value, n, out, plain[i / 2], i % 2);
	return rc;
}

int redact_init(struct redact *r, const void *value, size_t n)
{
	size_t room = room_for(n);
	uint8_t *padded = malloc(n + 3), *out = malloc(room);
	int rc = padded && out ? 0 : -ENOMEM;

	*r = (struct redact){0};
	if (rc == 0 && n > 0)
		rc = add_texts(r, value, n, out);
	if (rc == 0 && n > 0)
		rc = add_base64(r, value, n, padded, out);
	if (padded)
		explicit_bzero(padded, n + 3);
	if (out)
		explicit_bzero(out, room);
	free(padded);
	free(out);
	if (rc < 0)
		redact_done(r);
	return rc;
}

void redact_done(struct redact *r)
{
	for (size_t i = 0; i < r->count; i++)
		secret_done(&r->forms[i]);
	r->count = 0;
}

size_t redact_hold(size_t n)
{
	return n ? FORM_GROWTH * ((n + HOLD_CLASS - 1) / HOLD_CLASS * HOLD_CLASS) : 0;
}

/* ---- found ---- */

static void mark(struct redact_marks *m, size_t from, size_t to)
{
	if (!m->found && !m->failed) {
		m->found = calloc(1, m->n);
		m->failed = !m->found;
	}
	if (m->found)
		memset(m->found + from, 1, to - from);
}

void redact_marks_init(struct redact_marks *m, size_t n, size_t safe, size_t forced)
{
	*m = (struct redact_marks){.n = n, .safe = safe};
	if (forced > 0) {
		m->reach = forced < n ? forced : n;
		mark(m, 0, m->reach);
	}
}

void redact_mark(const struct redact *r, const uint8_t *p, struct redact_marks *m)
{
	for (size_t i = 0; i < r->count && !control_is_off("door-redact"); i++) {
		const struct secret *f = &r->forms[i];
		size_t at = 0, done = 0;
		const uint8_t *hit;

		/* One may begin within another of its kind. */
		while ((hit = memmem(p + at, m->n - at, f->data, f->len))) {
			size_t from = (size_t)(hit - p), to = from + f->len;

			mark(m, from > done ? from : done, to);
			if (from < m->safe && to > m->reach)
				m->reach = to;
			done = to;
			at = from + 1;
		}
	}
}

size_t redact_marks_apply(struct redact_marks *m, uint8_t *p)
{
	if (m->failed)
		memset(p, '*', m->safe);
	for (size_t i = 0; m->found && i < m->safe; i++)
		if (m->found[i])
			p[i] = '*';
	free(m->found);
	m->found = NULL;
	return m->reach > m->safe ? m->reach - m->safe : 0;
}
