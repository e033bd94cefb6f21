/*
 * What can be known of a line's text without parsing it; see shell_text.h.
 *
 * How it works
 *
 * bash reads a sourced file as it reads a script: a command is parsed when the one before has run.
 * One thing differs in an interactive shell, which ours is: after `${X:?}` or an unset variable
 * under `set -u` a script ends, but an interactive shell goes on with the next command, and
 * `cd "${DIR:?}"` would be followed by `rm -rf *`. Only what was parsed together ends together. So
 * where that can happen the text is put into braces:
 *
 *	HEAD		first lines that set options and aliases: the rest is parsed with them
 *	{ PART; }; MARK
 *	GUARD; { PART
 *	}
 *
 * It can happen under `set -u`, if the text has `${X?` or runs other files or strings, and if a
 * function of the shell has `${X?`; not in a text of one line, nor with `set -e`, which ends any
 * shell. A text in braces does not run at all if it does not parse, so one whose here-document ends
 * with the text is read without them, and so is one that is too long: bash would walk it
 * recursively.
 *
 * What comes after an option, an alias or a sourced file has to be parsed with it. So a part ends
 * with a line that begins with such a command, if that is sure to be a whole command of its own:
 * nothing before it is open, by a scan of quotes, words and here-documents that gives up where it
 * is in doubt. The mark is reached only if nothing ended the part, and the guard ends the text if
 * there is no mark.
 */
#include "init/shell_text.h"

#include "base/limits.h"

#include <string.h>

static const char blanks[] = " \t";

static bool begins_word(const char *text, const char *at)
{
	return at == text || strchr(" \t\n;&|(){`", at[-1]) != NULL;
}

/* Is what begins here a command's name? */
static bool begins_command(const char *text, const char *at)
{
	static const char *const before[] = {"then", "do", "else", "if", "while", "until", "!"};
	const char *end = at;

	while (end > text && strchr(blanks, end[-1]))
		end--;
	for (size_t i = 0; i < sizeof(before) / sizeof(*before); i++) {
		size_t n = strlen(before[i]);

		if ((size_t)(end - text) >= n && memcmp(end - n, before[i], n) == 0 &&
		    begins_word(text, end - n))
			return true;
	}
	return begins_word(text, end);
}

static bool has_command(const char *text, const char *word)
{
	size_t n = strlen(word);

	for (const char *at = text; (at = strstr(at, word)); at += n)
		if (begins_command(text, at) && strchr(blanks, at[n]))
			return true;
	return false;
}

bool text_has_must_be_set(const char *s)
{
	while ((s = strstr(s, "${"))) {
		s += 2;
		s += strspn(s, "#!");
		s += strspn(s,
			    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@*-");
		if (*s == '[')
			s += strcspn(s, "]\n");
		if (s[strspn(s, "]:")] == '?')
			return true;
	}
	return false;
}

/* `set` with this letter after that sign, before the command's end */
static bool sets_option(const char *text, char sign, char letter)
{
	for (const char *at = text; (at = strstr(at, "set")); at += 3) {
		const char *end = at + strcspn(at, "\n;&|");

		if (!begins_word(text, at) || !strchr(blanks, at[3]))
			continue;
		for (const char *o = at; (o = memchr(o, sign, (size_t)(end - o))); o++) {
			size_t n = strspn(o + 1, "abefhkmnptuvxBCEHPT");

			if (memchr(o + 1, letter, n) && strchr(" \t\n;&|o", o[1 + n]))
				return true;
		}
	}
	return false;
}

bool text_defines_abort(const char *s)
{
	return text_has_must_be_set(s) || has_command(s, ".") || has_command(s, "source") ||
	       has_command(s, "eval");
}

bool text_sets_nounset(const char *s)
{
	return strstr(s, "nounset") || sets_option(s, '-', 'u');
}

size_t text_take_delimiter(const char **at, char ret[TEXT_DELIMITER_MAX])
{
	const char *s = *at + strspn(*at, blanks);
	size_t n = 0;
	char quote = '\0';

	for (; *s && *s != '\n' && n < TEXT_DELIMITER_MAX; s++) {
		if (quote ? *s == quote : *s == '\'' || *s == '"')
			quote = quote ? '\0' : *s;
		else if (!quote && strchr(" \t;&|<>()", *s))
			break;
		else if (*s != '\\')
			ret[n++] = *s;
	}
	*at = s;
	return n;
}

static bool has_line(const char *s, const char *line, size_t n, bool tabs)
{
	while ((s = strchr(s, '\n'))) {
		s++;
		if (tabs)
			s += strspn(s, "\t");
		if (strncmp(s, line, n) == 0 && (s[n] == '\n' || s[n] == '\0'))
			return true;
	}
	return false;
}

/* This may also take 1<<N for one. */
static bool has_open_heredoc(const char *s)
{
	char word[TEXT_DELIMITER_MAX];

	while ((s = strstr(s, "<<"))) {
		bool tabs = s[2] == '-';
		size_t n;

		if (s[2] == '<') {
			s += 3;
			continue;
		}
		s += tabs ? 3 : 2;
		n = text_take_delimiter(&s, word);
		if (n > 0 && !has_line(s, word, n, tabs))
			return true;
	}
	return false;
}

static size_t count_lines(const char *s)
{
	size_t n = 0;

	while (*s) {
		s += strcspn(s, "\n");
		s += strspn(s, "\n");
		n++;
	}
	return n;
}

bool text_is_nothing(const char *s)
{
	while (*s) {
		s += strspn(s, " \t\n");
		if (*s && *s != '#')
			return false;
		s += strcspn(s, "\n");
	}
	return true;
}

bool text_needs_braces(const char *s, bool errexit)
{
	size_t lines = count_lines(s);
	bool exits = (errexit || sets_option(s, '-', 'e') || strstr(s, "-o errexit")) &&
		     !sets_option(s, '+', 'e') && !strstr(s, "+o errexit"); /* in all of it */

	/* Braces around nothing would not parse. */
	return lines > 1 && lines <= INIT_BRACED_MAX && !exits && !has_open_heredoc(s) &&
	       !text_is_nothing(s + text_head_len(s));
}

/* One line, without its end: an option or an alias, complete in itself, that expands nothing. */
static bool is_head_line(const char *s, size_t n)
{
	static const char *const words[] = {"set", "shopt", "alias", "unalias"};
	size_t quotes = 0;

	while (n > 0 && strchr(blanks, *s)) {
		s++;
		n--;
	}
	if (n == 0 || *s == '#')
		return true;
	for (size_t i = 0; i < n; i++) {
		quotes += s[i] == '\'';
		if (strchr("$`\\\"<>|&(){}", s[i]))
			return false;
	}
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		size_t len = strlen(words[i]);

		if (n > len && strncmp(s, words[i], len) == 0 && strchr(blanks, s[len]))
			return quotes % 2 == 0;
	}
	return false;
}

size_t text_head_len(const char *s)
{
	const char *at = s;

	for (;;) {
		size_t n = strcspn(at, "\n");

		if (at[n] == '\0' || !is_head_line(at, n))
			return (size_t)(at - s);
		at += n + 1;
	}
}
