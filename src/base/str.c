/* String checks, escapes and parsing; see str.h. */
#include "base/str.h"

#include "base/limits.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

bool str_copy(char *dst, size_t size, const char *src)
{
	size_t n = strlen(src);
	bool fits = n < size;

	if (!fits)
		n = size - 1;
	memcpy(dst, src, n);
	dst[n] = 0;
	return fits;
}

bool str_starts(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

bool str_is_plain_name(const char *s, size_t max)
{
	size_t n = strlen(s);

	if (n == 0 || n > max || s[0] == '-' || s[n - 1] == '-')
		return false;
	for (size_t i = 0; i < n; i++)
		if (!(s[i] >= 'a' && s[i] <= 'z') && !is_digit(s[i]) && s[i] != '-')
			return false;
	return true;
}

static size_t hex_digits(const char *s)
{
	return strspn(s, "0123456789abcdef");
}

bool str_is_key_id(const char *s)
{
	return strlen(s) == STR_NAMESPACE - 1 && hex_digits(s) == STR_NAMESPACE - 1;
}

const char *str_plain_name(const char *name)
{
	bool has = hex_digits(name) == STR_NAMESPACE - 1 && name[STR_NAMESPACE - 1] == '_';

	return has ? name + STR_NAMESPACE : name;
}

bool str_is_name(const char *s, size_t max)
{
	const char *plain = str_plain_name(s);
	size_t before = (size_t)(plain - s);

	return before <= max && str_is_plain_name(plain, max - before);
}

bool str_is_shell_name(const char *s)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789._-";
	size_t n = strspn(s, letters);

	return n > 0 && n <= SHELL_NAME_MAX && !s[n] && !strchr("._-", s[0]);
}

bool str_is_env_name(const char *s)
{
	if (!*s || is_digit(*s))
		return false;
	for (; *s; s++)
		if (!(*s >= 'a' && *s <= 'z') && !(*s >= 'A' && *s <= 'Z') && !is_digit(*s) &&
		    *s != '_')
			return false;
	return true;
}

bool str_parse_u64(const char *s, uint64_t max, uint64_t *ret)
{
	uint64_t v = 0;

	if (!*s)
		return false;
	for (; *s; s++) {
		uint64_t digit = (uint64_t)(*s - '0');

		if (!is_digit(*s) || v > (max - digit) / 10 || digit > max)
			return false;
		v = v * 10 + digit;
	}
	*ret = v;
	return true;
}

bool str_parse_octal(const char *s, unsigned max, unsigned *ret)
{
	unsigned v = 0;

	if (!*s)
		return false;
	for (; *s; s++) {
		unsigned digit = (unsigned)(*s - '0');

		if (digit > 7 || digit > max || v > (max - digit) / 8)
			return false;
		v = v * 8 + digit;
	}
	*ret = v;
	return true;
}

static uint64_t unit_ms(const char *unit)
{
	static const struct {
		const char *unit;
		uint64_t ms;
	} units[] = {{"", 1000},   {"ms", 1},	   {"s", 1000},
		     {"m", 60000}, {"h", 3600000}, {"d", 86400000}};

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (strcmp(unit, units[i].unit) == 0)
			return units[i].ms;
	return 0;
}

bool str_parse_ms(const char *s, uint64_t *ret_ms)
{
	enum { WHOLE_MAX = 1000000000 };
	uint64_t whole = 0, fraction = 0, scale = 1, unit;
	const char *p = s;

	for (; is_digit(*p) && whole <= WHOLE_MAX; p++)
		whole = whole * 10 + (uint64_t)(*p - '0');
	if (p == s || whole > WHOLE_MAX)
		return false;
	if (*p == '.') {
		if (!is_digit(*++p))
			return false;
		for (; is_digit(*p); p++)
			if (scale < 1000000) {
				fraction = fraction * 10 + (uint64_t)(*p - '0');
				scale *= 10;
			}
	}
	unit = unit_ms(p);
	if (!unit)
		return false;
	*ret_ms = whole * unit + fraction * unit / scale;
	return true;
}

size_t str_utf8(const uint8_t *p, size_t n, uint32_t *ret_rune)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	uint32_t rune;
	size_t len;

	if (n == 0)
		return 0;
	len = p[0] < 0x80   ? 1
	      : p[0] < 0xc2 ? 0
	      : p[0] < 0xe0 ? 2
	      : p[0] < 0xf0 ? 3
	      : p[0] < 0xf5 ? 4
			    : 0;
	if (len == 0 || len > n)
		return 0;
	rune = len == 1 ? p[0] : p[0] & (0x7fu >> len);
	for (size_t i = 1; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		rune = rune << 6 | (p[i] & 0x3fu);
	}
	if (rune < least[len] || (rune >= 0xd800 && rune < 0xe000) || rune > 0x10ffff)
		return 0;
	*ret_rune = rune;
	return len;
}

bool str_is_utf8(const void *p, size_t n)
{
	uint32_t rune;

	for (size_t i = 0; i < n;) {
		size_t len = str_utf8((const uint8_t *)p + i, n - i, &rune);

		if (len == 0)
			return false;
		i += len;
	}
	return true;
}

bool str_is_tricky(uint32_t r)
{
	return r < 0x20 || (r >= 0x7f && r < 0xa0) || r == 0x2028 || r == 0x2029 || r == 0x61c ||
	       r == 0x200e || r == 0x200f || (r >= 0x202a && r <= 0x202e) ||
	       (r >= 0x2066 && r <= 0x2069) || r == 0xfeff;
}

static int escape_byte(struct buf *b, uint8_t c)
{
	switch (c) {
	case '\n':
		return buf_append_str(b, "\\n");
	case '\r':
		return buf_append_str(b, "\\r");
	case '\t':
		return buf_append_str(b, "\\t");
	default:
		return buf_printf(b, "\\x%02x", c);
	}
}

int str_escape(struct buf *b, const char *s, size_t n)
{
	const uint8_t *p = (const uint8_t *)s;
	int r = 0;

	for (size_t i = 0; i < n && r == 0;) {
		uint32_t rune = 0;
		size_t len = str_utf8(p + i, n - i, &rune);

		if (len > 0 && !str_is_tricky(rune)) {
			if (rune == '\\' || rune == '"')
				r = buf_append(b, "\\", 1);
			if (r == 0)
				r = buf_append(b, p + i, len);
		} else {
			len = len ? len : 1;
			for (size_t k = 0; k < len && r == 0; k++)
				r = escape_byte(b, p[i + k]);
		}
		i += len;
	}
	return r;
}

static const struct {
	const char *name;
	int sig;
} signals[] = {
	{"HUP", SIGHUP},       {"INT", SIGINT},	  {"QUIT", SIGQUIT},   {"ILL", SIGILL},
	{"TRAP", SIGTRAP},     {"ABRT", SIGABRT}, {"BUS", SIGBUS},     {"FPE", SIGFPE},
	{"KILL", SIGKILL},     {"USR1", SIGUSR1}, {"SEGV", SIGSEGV},   {"USR2", SIGUSR2},
	{"PIPE", SIGPIPE},     {"ALRM", SIGALRM}, {"TERM", SIGTERM},   {"CHLD", SIGCHLD},
	{"CONT", SIGCONT},     {"STOP", SIGSTOP}, {"TSTP", SIGTSTP},   {"TTIN", SIGTTIN},
	{"TTOU", SIGTTOU},     {"URG", SIGURG},	  {"XCPU", SIGXCPU},   {"XFSZ", SIGXFSZ},
	{"VTALRM", SIGVTALRM}, {"PROF", SIGPROF}, {"WINCH", SIGWINCH}, {"IO", SIGIO},
	{"PWR", SIGPWR},       {"SYS", SIGSYS},
};

int str_parse_signal(const char *s)
{
	uint64_t number;

	if (str_parse_u64(s, 64, &number))
		return (int)number;
	if (str_starts(s, "SIG"))
		s += 3;
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		if (strcmp(s, signals[i].name) == 0)
			return signals[i].sig;
	return 0;
}

const char *str_signal_name(int sig)
{
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		if (signals[i].sig == sig)
			return signals[i].name;
	return NULL;
}

/* Edit distance, a swap of neighbours counting as one; words longer than the table are far. */
static unsigned distance(const char *a, const char *b)
{
	enum { WORD = 24 };
	unsigned d[WORD + 1][WORD + 1];
	size_t la = strlen(a), lb = strlen(b);

	if (la > WORD || lb > WORD)
		return WORD;
	for (size_t i = 0; i <= la; i++)
		d[i][0] = (unsigned)i;
	for (size_t j = 0; j <= lb; j++)
		d[0][j] = (unsigned)j;
	for (size_t i = 1; i <= la; i++)
		for (size_t j = 1; j <= lb; j++) {
			unsigned best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);

			if (d[i - 1][j] + 1 < best)
				best = d[i - 1][j] + 1;
			if (d[i][j - 1] + 1 < best)
				best = d[i][j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    d[i - 2][j - 2] + 1 < best)
				best = d[i - 2][j - 2] + 1;
			d[i][j] = best;
		}
	return d[la][lb];
}

const char *str_closest(const char *word, const char *const *candidates)
{
	const char *best = NULL;
	unsigned least = 3; /* two slips are a typo, three are another word */
	size_t len = strlen(word);

	for (; len && *candidates; candidates++) {
		unsigned n = distance(word, *candidates);

		if (len >= 2 && str_starts(*candidates, word))
			n = n < 1 ? n : 1;
		if (n < least && n < len) {
			least = n;
			best = *candidates;
		}
	}
	return best;
}

void str_hex(const void *p, size_t n, char *ret)
{
	static const char digits[] = "0123456789abcdef";
	const uint8_t *from = p;

	for (size_t i = 0; i < n; i++) {
		ret[2 * i] = digits[from[i] >> 4];
		ret[2 * i + 1] = digits[from[i] & 15];
	}
	ret[2 * n] = 0;
}
