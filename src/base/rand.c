/* Random bytes; see rand.h. */
#include "base/rand.h"

#include "base/err.h"

#include <errno.h>
#include <stdint.h>
#include <sys/random.h>

void rand_bytes(void *p, size_t n)
{
	size_t done = 0;

	while (done < n) {
		ssize_t r = getrandom((char *)p + done, n - done, 0);

		if (r < 0 && errno == EINTR)
			continue;
		ASSERT(r > 0);
		done += (size_t)r;
	}
}

void rand_hex(char *ret, size_t bytes)
{
	static const char digits[] = "0123456789abcdef";

	/* The bytes sit in the second half, and are read before their digits reach them. */
	rand_bytes(ret + bytes, bytes);
	for (size_t i = 0; i < bytes; i++) {
		uint8_t b = (uint8_t)ret[bytes + i];

		ret[2 * i] = digits[b >> 4];
		ret[2 * i + 1] = digits[b & 15];
	}
	ret[2 * bytes] = 0;
}
