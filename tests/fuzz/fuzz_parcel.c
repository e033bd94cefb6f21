/*
 * Files of many members. How many bytes are asked for at once changes neither the verdict nor what
 * comes out, and what comes out can be written and read again.
 */
#include "fuzz.h"

#include "base/fd.h"
#include "store/parcel.h"

#include <stdlib.h>

/* Heads in brackets, contents after them. */
static int read_pack(int fd, size_t piece, struct buf *log)
{
	static struct parcel_reader r;
	uint8_t block[512];
	struct err e = {0};
	int k;

	MUST(lseek(fd, 0, SEEK_SET) == 0);
	k = parcel_open(&r, fd, "test", &e);
	while (k == 0) {
		autofree char *head = NULL;
		size_t len, got = 1;

		k = parcel_next(&r, &head, &len, &e);
		if (k <= 0)
			break;
		k = buf_printf(log, "[%zu ", len);
		if (k == 0)
			k = buf_append(log, head, len);
		while (k == 0 && got > 0) {
			k = parcel_read(&r, block, piece, &got, &e);
			if (k == 0 && got > 0)
				k = buf_append(log, block, got);
		}
		if (k == 0)
			k = buf_append_str(log, "]");
	}
	MUST(k <= 0 && (k == 0 || e.msg[0]));
	return k;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	autoclose int fd = sys_memfd_create("fuzz", 0);
	struct buf whole, cut;
	int r;

	MUST(fd >= 0 && fd_write_full(fd, p, n) == 0);
	buf_init(&whole, 64 << 20);
	buf_init(&cut, 64 << 20);
	r = read_pack(fd, 512, &whole);
	MUST(r == read_pack(fd, n > 0 ? 1u + p[n - 1] % 37u : 1, &cut));
	if (r == 0)
		must_equal(&whole, &cut);
	MUST(lseek(fd, 0, SEEK_SET) == 0);
	MUST((parcel_check(fd, "test", NULL, NULL, NULL) == 0) == (r == 0));
	buf_done(&whole);
	buf_done(&cut);
	return 0;
}
