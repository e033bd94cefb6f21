/*
 * Where a text can be cut in two for the parser; shell_text.c says what for.
 *
 * How it works
 *
 * The lines before the cut are scanned for what may be open: a quote, a here-document, a backslash
 * or an operator at the end of a line, and by words and brackets a compound command. Words count
 * wherever they stand: `echo if` leaves one open for ever, and then there is no cut, which is the
 * safe side. What is closed but was never opened ends the scan.
 */
#include "init/shell_text.h"

#include <string.h>

enum { HEREDOCS_MAX = 4 };

struct heredoc {
	char word[TEXT_DELIMITER_MAX];
	size_t len;
	bool tabs;
};

struct scan {
	char quote; /* ' " or A for $'; 0 outside */
	int open, cases;
	bool lost;	/* it cannot be known any more */
	bool joined;	/* the line goes on in the next one */
	bool commented; /* the line has a comment or a here-document */
	bool single;	/* it has a ' somewhere */
	char last;	/* the line's last byte that is not blank */
	struct heredoc docs[HEREDOCS_MAX];
	size_t doc_count;
};

static bool ends_word(char c)
{
	return c == '\0' || strchr(" \t\n;&|()<>", c);
}

static bool is_word(const char *s, size_t n, const char *word)
{
	return strlen(word) == n && memcmp(s, word, n) == 0;
}

static void count_word(struct scan *st, const char *s, size_t n)
{
	static const char *const opens[] = {"if", "do", "{", "case"};
	static const char *const closes[] = {"fi", "done", "}", "esac"};

	for (size_t i = 0; i < sizeof(opens) / sizeof(*opens); i++) {
		if (is_word(s, n, opens[i]))
			st->open++;
		if (is_word(s, n, closes[i]))
			st->open--;
	}
	st->cases += is_word(s, n, "case") - is_word(s, n, "esac");
	if (st->open < 0)
		st->lost = true;
}

static const char *take_heredoc(struct scan *st, const char *s)
{
	struct heredoc *d = &st->docs[st->doc_count];

	if (s[2] == '<')
		return s + 3;
	if (st->doc_count == HEREDOCS_MAX) {
		st->lost = true;
		return s + 2;
	}
	d->tabs = s[2] == '-';
	s += d->tabs ? 3 : 2;
	d->len = text_take_delimiter(&s, d->word);
	st->doc_count++;
	st->commented = true;
	return s;
}

/* In quotes: up to their end, or the end of the line. A command inside "" may have quotes of its
 * own; they are taken for ends and beginnings, which comes to the same without '. */
static const char *skip_quoted(struct scan *st, const char *s)
{
	char end = st->quote == 'A' ? '\'' : st->quote;

	for (; *s && *s != '\n'; s++) {
		if (*s == end) {
			st->quote = '\0';
			return s + 1;
		}
		if (*s == '\\' && st->quote != '\'' && s[1] && s[1] != '\n')
			s++;
		else if (end == '"' && (*s == '`' || (*s == '$' && s[1] == '(')))
			st->lost = st->lost || st->single;
	}
	return s;
}

/* One word, or what stands between words. */
static const char *take_plain(struct scan *st, const char *line, const char *s)
{
	size_t n = 0;

	if (*s == '#') {
		st->commented = true;
		st->lost = s > line && s[-1] == ')'; /* $(a)#b is a word */
		return s + strcspn(s, "\n");
	}
	if (strncmp(s, "<<", 2) == 0)
		return take_heredoc(st, s);
	if (st->cases == 0 && *s == '(')
		st->open++;
	if (st->cases == 0 && *s == ')' && --st->open < 0)
		st->lost = true;
	if (ends_word(*s))
		return s + 1;
	while (!ends_word(s[n]) && !strchr("'\"\\", s[n]))
		n++;
	if (ends_word(s[n]))
		count_word(st, s, n);
	return s + n;
}

/* A quote or a backslash. What is left of its word after it is none. */
static const char *take_special(struct scan *st, const char *line, const char *s)
{
	if (*s == '\\') {
		st->joined = s[1] == '\n';
		s += 1 + (s[1] && s[1] != '\n');
	} else {
		st->quote = *s == '\'' && s > line && s[-1] == '$' ? 'A' : *s;
		s = skip_quoted(st, s + 1);
	}
	while (!st->quote && !ends_word(*s) && !strchr("'\"\\", *s))
		s++;
	return s;
}

/* The bodies of the line's here-documents. */
static const char *skip_heredocs(struct scan *st, const char *s)
{
	for (size_t i = 0; i < st->doc_count; i++) {
		const struct heredoc *d = &st->docs[i];
		bool found = false;

		while (*s && !found) {
			const char *at = s + (d->tabs ? strspn(s, "\t") : 0);
			size_t n = strcspn(at, "\n");

			found = n == d->len && memcmp(at, d->word, n) == 0;
			s = at + n + (at[n] == '\n');
		}
	}
	st->doc_count = 0;
	return s;
}

/* Returns where the next line begins. */
static const char *scan_line(struct scan *st, const char *line)
{
	const char *s = line;

	st->joined = st->commented = false;
	st->last = '\0';
	st->single = memchr(line, '\'', strcspn(line, "\n"));
	if (st->quote)
		s = skip_quoted(st, s);
	while (*s && *s != '\n' && !st->lost) {
		st->last = strchr(" \t#", *s) ? st->last : *s;
		s = strchr("'\"\\", *s) ? take_special(st, line, s) : take_plain(st, line, s);
	}
	st->joined = st->joined || st->last == '|' || st->last == '&';
	s += strcspn(s, "\n");
	return skip_heredocs(st, s + (*s == '\n'));
}

static bool is_clean(const struct scan *st)
{
	return !st->lost && !st->quote && st->open == 0 && !st->joined;
}

static bool changes_parsing(const char *s)
{
	static const char *const words[] = {"set",    "shopt", "alias", "unalias",
					    "source", ".",     "eval"};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		size_t n = strlen(words[i]);

		if (strncmp(s, words[i], n) == 0 && (s[n] == ' ' || s[n] == '\t'))
			return true;
	}
	return false;
}

size_t text_part_len(const char *s)
{
	struct scan st = {0};

	for (const char *at = s; *at && !st.lost;) {
		bool ends = is_clean(&st) && changes_parsing(at);
		const char *line = at;

		at = scan_line(&st, at);
		if (ends && is_clean(&st) && !st.commented && st.last != ';')
			return text_is_nothing(at) ? 0 : (size_t)(line - s) + strcspn(line, "\n");
	}
	return 0;
}
