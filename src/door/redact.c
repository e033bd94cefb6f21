/*
 * Finding values; see redact.h.
 *
 * How it works
 *
 * A value is five patterns, each a row of symbols: its bytes, its hex digits, and its base64
 * letters at three alignments, of which the first and the last may have bits that belong to the
 * neighbours. Symbols are computed from the value when they are needed: there is no other copy.
 *
 * Every place of the text may be the beginning of one. A filter says for nearly
 * all of them that it is not. From the others the patterns are followed: a thread is a place in the
 * text and a place in the pattern. A byte that begins an escape has several readings (escape.h), so
 * one thread can become several; two at the same places are one, and there are at most THREADS_MAX.
 * In hex and base64 a thread steps over blanks and separators, at most SKIP_MAX in a row.
 *
 * A place is looked at once, when all bytes that could belong to it are there: redact_hold of them,
 * or all up to the end of a line that nothing found can go beyond. So how the text was cut makes no
 * difference. A line is such an end where no value has two, unless it ends like a line of wrapped
 * base64 or hex: with a run of WRAP_MIN of their letters.
 *
 * The work is bounded by the length of the text: each byte earns WORK_PER_BYTE steps. A text that
 * needs more, again and again nearly the value, is overwritten without being looked at.
 */
#include "door/redact.h"

#include "door/escape.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	BASE64_MIN = 6,	 /* whole letters: shorter ones would be found everywhere */
	HEX_MIN = 8,	 /* digits */
	GROWTH = 12,	 /* bytes of the text for one of the value */
	HOLD_CLASS = 64, /* so many lengths look the same */
	SKIP_MAX = 16,
	WRAP_MIN = 16,
	RUN_BYTES = 3 * WRAP_MIN, /* that decide about a run */
	THREADS_MAX = 64,
	WORK_PER_BYTE = 64,
};

enum kind { KIND_TEXT, KIND_HEX, KIND_BASE64, KIND_COUNT = KIND_BASE64 + 3 };
enum { CLASS_NONE = -1, CLASS_SKIP = -2 };

struct redact_pattern {
	const uint8_t *p;
	size_t n;
	enum kind kind;
	size_t count; /* symbols */
};

struct thread {
	size_t at, symbol;
	unsigned skipped;
};

struct search {
	const struct redact *r;
	const uint8_t *p;
	size_t n;
	struct redact_run before; /* p */
	size_t end;		  /* no thread goes beyond it */
	struct thread threads[THREADS_MAX];
	unsigned count;
	size_t work;
};

/* ---- patterns ---- */

/* Bits of the first letter that belong to what stands before. */
static unsigned base64_shift(enum kind kind)
{
	return 2 * (unsigned)(kind - KIND_BASE64);
}

/* False if it would be too short to tell anything. */
static bool pattern_init(struct redact_pattern *x, const struct redact_value *v, enum kind kind)
{
	size_t bits = 8 * v->n;
	unsigned shift = kind >= KIND_BASE64 ? base64_shift(kind) : 0;

	*x = (struct redact_pattern){.p = v->p, .n = v->n, .kind = kind};
	if (kind == KIND_TEXT) {
		x->count = v->n;
		return true;
	}
	if (kind == KIND_HEX) {
		x->count = 2 * v->n;
		return x->count >= HEX_MIN;
	}
	x->count = (bits + shift + 5) / 6;
	return (bits - (shift ? 6 - shift : 0)) / 6 >= BASE64_MIN;
}

/* What a character is worth to a pattern of this kind. */
static int classify(enum kind kind, uint32_t c)
{
	if (kind == KIND_TEXT)
		return c < 256 ? (int)c : CLASS_NONE;
	if (c == ' ' || c == '\t' || c == '\r' || c == '\n')
		return CLASS_SKIP;
	if (kind == KIND_HEX)
		return c == ':' || c == '-' || c == ',' || c == ';' || c == '_'
			       ? CLASS_SKIP
			       : escape_hex_digit(c);
	if (c >= 'A' && c <= 'Z')
		return (int)(c - 'A');
	if (c >= 'a' && c <= 'z')
		return (int)(c - 'a') + 26;
	if (c >= '0' && c <= '9')
		return (int)(c - '0') + 52;
	return c == '+' || c == '-' ? 62 : c == '/' || c == '_' ? 63 : CLASS_NONE;
}

static bool symbol_is(const struct redact_pattern *x, size_t i, int class)
{
	unsigned shift, mask = 63, want;
	size_t bit, byte, left;

	if (class < 0)
		return false;
	/* A form writes a space as a plus. */
	if (x->kind == KIND_TEXT)
		return x->p[i] == class || (class == '+' && x->p[i] == ' ');
	if (x->kind == KIND_HEX)
		return (i % 2 ? x->p[i / 2] & 15 : x->p[i / 2] >> 4) == class;
	/* Six bits of the value, of which the mask's are its own. */
	shift = base64_shift(x->kind);
	if (i == 0 && shift > 0)
		return ((unsigned)class & 63u >> shift) == (unsigned)x->p[0] >> (2 + shift);
	bit = 6 * i - shift;
	byte = bit / 8;
	left = 8 * x->n - bit;
	if (left < 6)
		mask &= ~((1u << (6 - left)) - 1);
	want = (unsigned)x->p[byte] << 8 | (byte + 1 < x->n ? x->p[byte + 1] : 0u);
	want = want >> (10 - bit % 8) & mask;
	return ((unsigned)class & mask) == want;
}

static size_t utf8_write(uint32_t point, uint8_t ret[4])
{
	size_t n = 0;

	if (point < 0x800) {
		ret[n++] = (uint8_t)(0xc0 | point >> 6);
	} else {
		if (point < 0x10000) {
			ret[n++] = (uint8_t)(0xe0 | point >> 12);
		} else {
			ret[n++] = (uint8_t)(0xf0 | point >> 18);
			ret[n++] = (uint8_t)(0x80 | (point >> 12 & 63));
		}
		ret[n++] = (uint8_t)(0x80 | (point >> 6 & 63));
	}
	ret[n++] = (uint8_t)(0x80 | (point & 63));
	return n;
}

/* How many symbols this is of the pattern, from one on: a code point may be several bytes. */
static size_t symbols_read(const struct redact_pattern *x, size_t i, const struct escape_reading *c)
{
	uint8_t utf8[4];
	size_t n;

	if (symbol_is(x, i, classify(x->kind, c->value)))
		return 1;
	if (x->kind != KIND_TEXT || c->is_byte || c->value < 0x80)
		return 0;
	n = utf8_write(c->value, utf8);
	return x->n - i >= n && memcmp(x->p + i, utf8, n) == 0 ? n : 0;
}

/* ---- wrapped lines ---- */

static uint8_t count_up(uint8_t n)
{
	return n < WRAP_MIN ? (uint8_t)(n + 1) : n;
}

/* The run that ends at this place. */
static struct redact_run run_at(const uint8_t *p, size_t at, const struct redact_run *before)
{
	size_t from = at > RUN_BYTES ? at - RUN_BYTES : 0;
	struct redact_run run = from == 0 ? *before : (struct redact_run){0};

	for (; from < at; from++) {
		uint8_t c = p[from];
		bool is_blank = c == ' ' || c == '\t' || c == '\r';
		bool is_letter = classify(KIND_BASE64, c) >= 0 || c == '=' || c == ';' ||
				 c == '#' || escape_begins(c);
		bool is_digit = (c != '\n' && classify(KIND_HEX, c) != CLASS_NONE) || c == 'x';

		if (is_blank && run.blanks < SKIP_MAX)
			run.blanks++;
		else
			run.letters = is_letter ? count_up(run.blanks ? 0 : run.letters) : 0;
		if (!is_blank)
			run.blanks = 0;
		run.digits = is_digit ? count_up(run.digits) : 0;
	}
	return run;
}

/* May hex or base64 go on behind the line end at this place? */
static bool is_wrap(const uint8_t *p, size_t at, const struct redact_run *before)
{
	struct redact_run run = run_at(p, at, before);

	return run.letters >= WRAP_MIN || run.digits >= WRAP_MIN;
}

/* ---- threads ---- */

static void thread_add(struct search *s, size_t at, size_t symbol, unsigned skipped)
{
	for (unsigned i = 0; i < s->count; i++)
		if (s->threads[i].at == at && s->threads[i].symbol == symbol)
			return;
	if (s->count < THREADS_MAX)
		s->threads[s->count++] = (struct thread){at, symbol, skipped};
}

/* Goes on with one reading of the text. */
static void thread_read(struct search *s, const struct redact_pattern *x, const struct thread *t,
			const struct escape_reading *c)
{
	size_t n = symbols_read(x, t->symbol, c);
	bool is_line_end = c->len == 1 && c->value == '\n';

	if (n > 0)
		thread_add(s, t->at + c->len, t->symbol + n, 0);
	if (t->symbol == 0 || classify(x->kind, c->value) != CLASS_SKIP ||
	    t->skipped + c->len > SKIP_MAX)
		return;
	if (!is_line_end || s->r->has_lines || is_wrap(s->p, t->at, &s->before))
		thread_add(s, t->at + c->len, t->symbol, t->skipped + c->len);
}

static void thread_step(struct search *s, const struct redact_pattern *x, const struct thread *t)
{
	const uint8_t *p = s->p + t->at;
	size_t n = s->end - t->at;
	struct escape_reading readings[ESCAPE_READINGS] = {
		{.value = p[0], .len = 1, .is_byte = true}};
	unsigned count = escape_begins(p[0]) ? escape_read(p, n, readings) : 1;

	s->work++;
	for (unsigned i = 0; i < count; i++)
		thread_read(s, x, t, &readings[i]);
	/* 0x73, 0x65 */
	if (x->kind == KIND_HEX && t->symbol > 0 && t->symbol % 2 == 0 && n > 1 && p[0] == '0' &&
	    (p[1] | 0x20) == 'x' && t->skipped + 2 <= SKIP_MAX)
		thread_add(s, t->at + 2, t->symbol, t->skipped + 2);
}

/* Where the longest ends that begins here, or 0. */
static size_t match(struct search *s, const struct redact_pattern *x, size_t start)
{
	size_t found = 0;

	s->count = 0;
	thread_add(s, start, 0, 0);
	while (s->count > 0) {
		unsigned first = 0;
		struct thread t;

		/* The one that is behind the others, so that two which meet are seen to. */
		for (unsigned i = 1; i < s->count; i++)
			if (s->threads[i].at < s->threads[first].at)
				first = i;
		t = s->threads[first];
		s->threads[first] = s->threads[--s->count];
		if (t.symbol == x->count)
			found = t.at > found ? t.at : found;
		else if (t.at < s->end)
			thread_step(s, x, &t);
	}
	return found;
}

/* ---- the filter ---- */

/*
 * For every byte a set of patterns that may begin with it, and one of those that may have it as
 * their second byte: two loads say that nothing begins at a place. A pattern's bit is shared where
 * there are many. The other bits stand for the three kinds of escapes, and for blanks within hex
 * and base64.
 */
enum {
	FILTER_PATTERNS = 28,
	FILTER_BLANK = 28,
	FILTER_PERCENT,
	FILTER_BACKSLASH,
	FILTER_AMPERSAND,
};

struct filter {
	uint32_t first[256], second[256];
};

static uint32_t filter_bit(unsigned i)
{
	return (uint32_t)1 << i;
}

static struct filter *filter_of(const struct redact *r)
{
	return (struct filter *)(void *)r->filter.data;
}

static void filter_add_all(uint32_t set[256], const char *bytes, unsigned bit)
{
	for (const char *c = bytes; *c; c++)
		set[(uint8_t)*c] |= filter_bit(bit);
}

/* Bytes that are the symbol. */
static void filter_add_symbol(uint32_t set[256], const struct redact_pattern *x, size_t i,
			      uint32_t bits)
{
	static const char alphabet[] =
		"0123456789ABCDEFabcdefGHIJKLMNOPQRSTUVWXYZghijklmnopqrstuvwxyz+/-_";

	if (x->kind == KIND_TEXT) {
		set[x->p[i]] |= bits;
		set['+'] |= x->p[i] == ' ' ? bits : 0;
		return;
	}
	for (const char *c = alphabet; *c; c++)
		if (symbol_is(x, i, classify(x->kind, (uint8_t)*c)))
			set[(uint8_t)*c] |= bits;
}

static void filter_add(struct filter *f, const struct redact_pattern *x, unsigned bit)
{
	bool is_text = x->kind == KIND_TEXT;

	filter_add_symbol(f->first, x, 0,
			  filter_bit(bit) | (is_text ? 0 : filter_bit(FILTER_BLANK)));
	if (x->count > 1)
		filter_add_symbol(f->second, x, 1, filter_bit(bit));
	for (unsigned c = 0; c < 256 && x->count == 1; c++)
		f->second[c] |= filter_bit(bit);
	filter_add_all(f->second, "%\\&", bit);
	if (x->kind == KIND_HEX)
		filter_add_all(f->second, ":-,;_", bit);
}

/* Of the escapes that have two bytes only those which stand for something that may begin one. */
static void filter_add_short(struct filter *f)
{
	for (const char *c = "\"/'btnfrv0"; *c; c++) {
		uint8_t pair[] = {'\\', (uint8_t)*c};
		struct escape_reading readings[ESCAPE_READINGS];

		if (escape_read(pair, sizeof(pair), readings) > 1 &&
		    f->first[readings[1].value & 0xff])
			f->second[pair[1]] |= filter_bit(FILTER_BACKSLASH);
	}
}

/* Those of a set whose second byte may stand here, or behind blanks. */
static uint32_t filter_second(const struct filter *f, uint32_t set, const uint8_t *p,
			      const uint8_t *end)
{
	const uint8_t *next = p;

	while (next < end && next - p < SKIP_MAX && f->second[*next] & filter_bit(FILTER_BLANK))
		next++;
	if (next == end)
		return set;
	return set & (f->second[*next] | (next > p ? f->second[*p] : 0));
}

/* The patterns that may begin at a place, where the two bytes there did not say that none does. */
static uint32_t filter_at(const struct search *s, size_t at)
{
	const struct filter *f = filter_of(s->r);
	const uint8_t *p = s->p + at, *end = s->p + s->end;
	struct escape_reading c[ESCAPE_READINGS];
	unsigned count = escape_begins(p[0]) ? escape_read(p, s->end - at, c) : 0;
	uint32_t set = filter_second(f, f->first[p[0]], p + 1, end);

	for (unsigned i = 1; i < count; i++) {
		uint8_t utf8[4];

		if (c[i].value < 256)
			set |= filter_second(f, f->first[c[i].value], p + c[i].len, end);
		if (!c[i].is_byte && c[i].value >= 0x80 && utf8_write(c[i].value, utf8) > 0)
			set |= f->first[utf8[0]];
	}
	return set;
}

int redact_add(struct redact *r, const void *value, size_t n)
{
	static const uint8_t nothing[sizeof(struct filter)];
	struct redact_value v = {value, n};
	bool is_new = !r->filter.data;
	int rc = 0;

	if (n == 0)
		return 0;
	if (r->count == REDACT_VALUES_MAX)
		return -E2BIG;
	if (is_new)
		rc = secret_init(&r->filter, nothing, sizeof(nothing));
	if (rc < 0)
		return rc;
	if (is_new) {
		struct filter *f = filter_of(r);

		f->first['%'] |= filter_bit(FILTER_PERCENT);
		f->first['\\'] |= filter_bit(FILTER_BACKSLASH);
		f->first['&'] |= filter_bit(FILTER_AMPERSAND);
		filter_add_all(f->second, "0123456789abcdefABCDEFu%\\&", FILTER_PERCENT);
		filter_add_all(f->second, "ux%\\&", FILTER_BACKSLASH);
		filter_add_all(f->second, ESCAPE_NAMES_BEGIN "#%\\&", FILTER_AMPERSAND);
		filter_add_all(f->second, " \t\r\n", FILTER_BLANK);
	}
	for (unsigned kind = 0; kind < KIND_COUNT; kind++) {
		unsigned bit = (unsigned)(r->count * KIND_COUNT + kind) % FILTER_PATTERNS;
		struct redact_pattern x;

		if (pattern_init(&x, &v, (enum kind)kind))
			filter_add(filter_of(r), &x, bit);
	}
	filter_add_short(filter_of(r));
	r->values[r->count++] = v;
	r->hold = redact_hold(n) > r->hold ? redact_hold(n) : r->hold;
	r->has_lines = r->has_lines || memchr(value, '\n', n);
	return 0;
}

/* Where the longest of any value ends that begins here, or 0. */
static size_t match_any(struct search *s, size_t start)
{
	size_t found = 0;
	uint32_t set;

	s->end = s->n - start < s->r->hold ? s->n : start + s->r->hold;
	set = filter_at(s, start);
	set &= filter_bit(FILTER_PATTERNS) - 1;
	for (unsigned i = 0; set && i < s->r->count * KIND_COUNT; i++) {
		struct redact_pattern x;
		size_t end;

		if (!(set & filter_bit(i % FILTER_PATTERNS)) ||
		    !pattern_init(&x, &s->r->values[i / KIND_COUNT], (enum kind)(i % KIND_COUNT)))
			continue;
		end = match(s, &x, start);
		found = end > found ? end : found;
	}
	return found;
}

void redact_done(struct redact *r)
{
	secret_done(&r->filter);
	*r = (struct redact){0};
}

size_t redact_hold(size_t n)
{
	return n ? GROWTH * ((n + HOLD_CLASS - 1) / HOLD_CLASS * HOLD_CLASS) : 0;
}

/* ---- parts ---- */

/* What was found in a part. */
struct marks {
	uint8_t *found; /* owned; one byte for each, NULL: nothing */
	bool failed;	/* no memory: all of it counts as found */
};

static void mark(struct marks *m, size_t n, size_t from, size_t to)
{
	if (!m->found && !m->failed) {
		m->found = calloc(1, n);
		m->failed = !m->found;
	}
	if (m->found)
		memset(m->found + from, 1, to - from);
}

/* Behind the last line of the part beyond which nothing goes that begins before; else 0. */
static size_t last_line(const struct redact *r, const struct redact_stream *s, const uint8_t *p,
			size_t n)
{
	size_t end = n;

	while (!r->has_lines && end > 0 && n - end < r->hold) {
		const uint8_t *line = memrchr(p, '\n', end);

		if (!line)
			return 0;
		end = (size_t)(line - p);
		if (!is_wrap(p, end, &s->before))
			return end + 1;
	}
	return 0;
}

/* The next place at which the filter does not say that nothing begins, or end. */
static size_t next_place(const struct filter *f, const uint8_t *p, size_t at, size_t end)
{
	enum { STEP = 8 };

	for (; at + STEP < end; at += STEP) {
		const uint8_t *q = p + at;
		uint32_t any = 0;

#pragma GCC unroll 8
		for (unsigned i = 0; i < STEP; i++)
			any |= f->first[q[i]] & f->second[q[i + 1]];
		if (any)
			break;
	}
	while (at + 1 < end && !(f->first[p[at]] & f->second[p[at + 1]]))
		at++;
	return at;
}

static void earn(struct redact_stream *st, size_t bytes)
{
	size_t steps = bytes * WORK_PER_BYTE;

	st->spent = st->spent > steps ? st->spent - steps : 0;
}

/* Looks at the first `safe` places. Returns where the last one found ends. */
static size_t scan(const struct redact *r, struct redact_stream *st, const uint8_t *p, size_t n,
		   size_t safe, struct marks *m)
{
	struct search s = {.r = r, .p = p, .n = n, .before = st->before};
	const struct filter *f = filter_of(r);
	size_t reach = st->forced < n ? st->forced : n, earned = 0;

	if (reach > 0)
		mark(m, n, 0, reach);
	for (size_t at = 0; (at = next_place(f, p, at, n)) < safe; at++) {
		size_t end;

		earn(st, at - earned);
		earned = at;
		s.work = 0;
		end = st->spent > 2 * r->hold ? at + 1 : match_any(&s, at);
		st->spent += s.work;
		if (end > reach) {
			mark(m, n, at > reach ? at : reach, end);
			reach = end;
		}
	}
	earn(st, safe - earned);
	return reach;
}

size_t redact_part(const struct redact *r, struct redact_stream *s, uint8_t *p, size_t n, bool more)
{
	size_t safe = more ? (n > r->hold ? n - r->hold : 0) : n, line, reach;
	struct redact_run run;
	struct marks m = {0};

	if (n == 0 || r->count == 0)
		return n;
	line = more ? last_line(r, s, p, n) : 0;
	safe = line > safe ? line : safe;
	reach = scan(r, s, p, n, safe, &m);
	run = run_at(p, safe, &s->before);
	if (m.failed)
		memset(p, '*', safe);
	for (size_t i = 0; m.found && i < safe; i++)
		if (m.found[i])
			p[i] = '*';
	free(m.found);
	s->before = run;
	s->forced = reach > safe ? reach - safe : 0;
	return safe;
}

void redact_whole(const struct redact *r, uint8_t *p, size_t n)
{
	struct redact_stream s = {0};

	(void)redact_part(r, &s, p, n, false);
}
