/* A client's first TLS message: the verdict about a part is "more", or the verdict about all. */
#include "fuzz.h"

#include "base/limits.h"
#include "door/hello.h"

#include <errno.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	size_t step = n > 2000 ? n / 1000 : 1;
	struct hello whole, part;
	int r = hello_parse(&whole, p, n);

	for (size_t i = 0; i < n; i += step) {
		/* A copy of its own size, so that a sanitizer sees a read beyond it. */
		uint8_t *copy = malloc(i + 1);
		int now;

		MUST(copy);
		memcpy(copy, p, i);
		now = hello_parse(&part, copy, i);
		free(copy);
		MUST(now == 0 || now == r);
		if (now == 1)
			MUST(memcmp(&part, &whole, sizeof(part)) == 0);
	}
	MUST(r != 0 || n < DOOR_HELLO_MAX);
	/* What a server may take for TLS never passes for something else, whatever its version. */
	if (n > 1 && p[0] >= 20 && p[0] <= 24 && p[1] == 3)
		MUST(r != -EPROTO);
	if (n > 2 && (p[0] & 0x80) && p[2] == 1)
		MUST(r == -EBADMSG);
	if (r == 1)
		for (const char *c = whole.sni; *c; c++)
			MUST(*c > ' ' && *c <= '~' && !(*c >= 'A' && *c <= 'Z'));
	return 0;
}
