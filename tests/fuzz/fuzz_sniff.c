/* Is it HTTP: how the bytes are cut must not change what is found, and what is known stays so. */
#include "fuzz.h"

#include "door/sniff.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct sniff whole = {0}, parts = {0};
	enum sniff_found all = sniff_feed(&whole, p, n), now = parts.found, before;

	for (size_t i = 0, len; i < n; i += len) {
		len = 1 + p[i] % 5;
		if (len > n - i)
			len = n - i;
		before = now;
		now = sniff_feed(&parts, p + i, len);
		if (before == SNIFF_HTTP || before == SNIFF_OTHER)
			MUST(now == before);
	}
	MUST(now == all);
	/* A method, a space, a target and the end of a line are the least that there is. */
	if (all == SNIFF_HTTP)
		MUST(n >= 4);
	return 0;
}
