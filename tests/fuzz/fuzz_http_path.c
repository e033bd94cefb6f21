/*
 * Paths and queries. A normal form is its own normal form and has nothing left in it that could be
 * read in two ways; a parameter that was removed is not there any more, and one that was added is.
 */
#include "fuzz.h"

#include "http/http.h"

static void check_path(const char *p, size_t n)
{
	struct buf once, twice;
	const char *text;

	buf_init(&once, 3 * n + 16);
	buf_init(&twice, 3 * n + 16);
	if (http_path_normalise(p, n, &once) == 0) {
		MUST(http_path_normalise((const char *)buf_data(&once), buf_len(&once), &twice) ==
		     0);
		must_equal(&once, &twice);
		text = buf_cstr(&once);
		MUST(text && strlen(text) == buf_len(&once) && text[0] == '/');
		MUST(!strstr(text, "//") && !strstr(text, "/./") && !strstr(text, "/../"));
		MUST(!strpbrk(text, "\\;?# \t\r\n") && !strstr(text, "%2F") &&
		     !strstr(text, "%00"));
		MUST(text[1] == '\0' || text[buf_len(&once) - 1] != '.');
	} else {
		MUST(buf_len(&once) == 0);
	}
	buf_done(&once);
	buf_done(&twice);
}

/* The text up to the first NUL is a query, the name of a parameter is made of a few letters. */
static void check_query(const char *query, unsigned which)
{
	static const char *const names[] = {"key", "a", "a b", "%", "=", "x_1", "\xc3\xa9"};
	const char *name = names[which % (sizeof(names) / sizeof(names[0]))];
	size_t max = 4 * strlen(query) + 64;
	struct buf once, twice;

	buf_init(&once, max);
	buf_init(&twice, max);
	MUST(http_query_remove(query, name, &once) >= 0);
	MUST(buf_len(&once) <= strlen(query));
	MUST(http_query_remove(buf_cstr(&once), name, &twice) == 0);
	must_equal(&once, &twice);
	MUST(http_query_add(&twice, name, query) == 0);
	buf_clear(&once);
	MUST(http_query_remove(buf_cstr(&twice), name, &once) == 1);
	buf_done(&once);
	buf_done(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct input in = {p, n};
	unsigned which = input_byte(&in);
	char *text = input_text(&in);

	check_path((const char *)in.p, in.n);
	check_query(text, which);
	free(text);
	return 0;
}
