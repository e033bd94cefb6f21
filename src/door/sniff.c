/* Is it HTTP; see sniff.h. */
#include "door/sniff.h"

#include <string.h>

static bool is_method(uint8_t c)
{
	uint8_t lower = c | 0x20;

	return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') ||
	       (c && strchr("!#$%&'*+-.^_`|~", c));
}

/* Also what only some languages take for a space. */
static bool is_space(uint8_t c)
{
	return c == ' ' || (c >= '\t' && c <= '\r' && c != '\n') || (c >= 0x1c && c <= 0x1f) ||
	       c == 0x85 || c == 0xa0;
}

static void know(struct sniff *s, enum sniff_found found)
{
	s->at = SNIFF_KNOWN;
	s->found = found;
}

static const char word[] = "http/";

static bool goes_on(unsigned matched, uint8_t c)
{
	return c == (uint8_t)word[matched] || (c != 0x0f && (c | 0x20) == word[matched]);
}

/* The first word after the method: is it what a request is for? */
static void in_target(struct sniff *s, uint8_t c)
{
	uint8_t lower = c | 0x20;
	bool is_letter = lower >= 'a' && lower <= 'z';

	switch (s->target) {
	case TARGET_BEFORE:
		if (c == '/' || c == '*')
			s->target = TARGET_FOUND;
		else if (!is_space(c))
			s->target = is_letter ? TARGET_SCHEME : TARGET_NONE;
		break;
	case TARGET_SCHEME:
		if (c == ':')
			s->target = TARGET_COLON;
		else if (!is_letter && !(c >= '0' && c <= '9') && c != '+' && c != '-' && c != '.')
			s->target = TARGET_NONE;
		break;
	case TARGET_COLON:
		s->target = c == '/' ? TARGET_SLASH : TARGET_NONE;
		break;
	case TARGET_SLASH:
		s->target = c == '/' ? TARGET_FOUND : TARGET_NONE;
		break;
	default:
		break;
	}
}

static void in_line(struct sniff *s, uint8_t c)
{
	if (c == '\n') {
		know(s, s->target == TARGET_FOUND ? SNIFF_HTTP : SNIFF_OTHER);
		return;
	}
	in_target(s, c);
	/* Its first letter stands in it once, so what does not go on can only begin anew. */
	if (!goes_on(s->matched, c))
		s->matched = 0;
	if (goes_on(s->matched, c))
		s->matched++;
	if (s->matched == sizeof(word) - 1)
		know(s, SNIFF_HTTP);
	else if (c < ' ' && c != '\t' && c != '\r')
		s->found = SNIFF_OPEN;
}

enum sniff_found sniff_feed(struct sniff *s, const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n && s->at != SNIFF_KNOWN; i++) {
		uint8_t c = p[i];

		switch (s->at) {
		case SNIFF_BEFORE:
			if (is_method(c))
				s->at = SNIFF_METHOD;
			else if (c != '\n' && !is_space(c))
				know(s, SNIFF_OTHER);
			break;
		case SNIFF_METHOD:
			if (is_space(c)) {
				s->at = SNIFF_LINE;
				s->found = c == ' ' || c == '\t' ? SNIFF_LIKELY : SNIFF_OPEN;
			} else if (!is_method(c)) {
				know(s, SNIFF_OTHER);
			}
			break;
		case SNIFF_LINE:
			in_line(s, c);
			break;
		case SNIFF_KNOWN:
			break;
		}
	}
	return s->found;
}
