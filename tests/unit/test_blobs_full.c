/* Blobs on a disk that is full: the part stays, and the next try goes on with it. */
#include "small_disk.h"
#include "tap.h"

#include "base/fd.h"
#include "store/blobs.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

static char data[900 << 10];

TEST(a_full_disk_leaves_a_part)
{
	char path[SMALL_DISK_PATH], home[64], fill[64], digest[BLOB_DIGEST];
	struct err e = {0};
	struct blob_put p;
	struct state s;
	uint64_t have;
	int r = 0;

	small_disk_mount(path, 1);
	snprintf(home, sizeof(home), "%s/h", path);
	snprintf(fill, sizeof(fill), "%s/fill", path);
	CHECK_EQ(state_open(&s, home, true, &e), 0);
	autoclose int fd = open(fill, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CHECK_EQ(fd_write_full(fd, data, 512 << 10), 0);
	memset(data, 7, sizeof(data));
	sha256_hex(data, sizeof(data), digest);
	CHECK_EQ(blobs_begin(&s, digest, sizeof(data), &p, &e), 0);
	while (r == 0 && p.have < sizeof(data))
		r = blobs_add(&s, &p, data + p.have, 4096, &e);
	CHECK_EQ(r, -ENOSPC);
	CHECK_EQ(e.kind, ERR_FULL);
	have = p.have;
	CHECK(have > 0);
	blobs_leave(&p);
	CHECK(!blobs_has(&s, digest));
	CHECK_EQ(unlink(fill), 0);
	fd_close(&fd);
	CHECK_EQ(blobs_begin(&s, digest, sizeof(data), &p, &e), 0);
	CHECK(p.have >= have);
	CHECK_EQ(blobs_add(&s, &p, data + p.have, sizeof(data) - p.have, &e), 0);
	CHECK_EQ(blobs_end(&s, &p, &e), 0);
	CHECK_EQ(blobs_verify(&s, digest, &e), 0);
	state_close(&s);
	small_disk_unmount(path);
}

TAP_MAIN
