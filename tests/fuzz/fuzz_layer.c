/*
 * Layers: a tar stream is unpacked as one. What was taken packs to a stream that unpacks to the
 * same tree, no name in it looks like a whiteout, and nothing beside it was touched.
 */
#include "fuzz.h"

#include "base/fd.h"
#include "storage/tree.h"
#include "store/layer_tar.h"
#include "store/unpack.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

static int make_root(int dir_fd, const char *name)
{
	int fd;

	MUST(tree_remove(dir_fd, name, NULL) == 0);
	MUST(mkdirat(dir_fd, name, 0755) == 0);
	fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	MUST(fd >= 0);
	return fd;
}

static int make_place(char path[64])
{
	int fd;

	snprintf(path, 64, "%s/cove-fuzz-layer-XXXXXX",
		 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	MUST(mkdtemp(path) != NULL);
	umask(0);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	MUST(fd >= 0);
	return fd;
}

static int unpack_fd(int tar_fd, int root_fd, struct unpack_result *ret)
{
	const struct unpack_how how = {
		.kind = UNPACK_LAYER, .single = geteuid() != 0, .bytes_max = 1 << 20};
	struct err e = {0};
	int r;

	MUST(lseek(tar_fd, 0, SEEK_SET) == 0);
	r = unpack_stream(tar_fd, root_fd, &how, ret, &e);
	MUST(r == 0 || (r < 0 && e.msg[0]));
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	char path[64];
	autoclose int dir_fd = make_place(path);
	autoclose int in = sys_memfd_create("in", 0), out = sys_memfd_create("out", 0);
	autoclose int one = make_root(dir_fd, "one"), two = make_root(dir_fd, "two");
	const struct layer_tar_how how = {.form = LAYER_TAR_LAYER};
	struct layer_tar_result first, second;
	struct unpack_result result;
	struct err e = {0};
	struct stat st;

	MUST(fd_write_full(in, p, n) == 0);
	if (unpack_fd(in, one, &result) == 0) {
		/* Packing refuses names like whiteouts: none can have come through. */
		MUST(layer_tar_pack(one, out, &how, &first, &e) == 0);
		MUST(unpack_fd(out, two, &result) == 0);
		MUST(strcmp(result.id, first.diff) == 0);
		MUST(layer_tar_pack(two, -1, &how, &second, &e) == 0);
		MUST(strcmp(first.diff, second.diff) == 0);
	}
	/* The two trees are all there is. */
	MUST(fstatat(dir_fd, "outside", &st, AT_SYMLINK_NOFOLLOW) < 0);
	MUST(tree_remove(dir_fd, "one", NULL) == 0 && tree_remove(dir_fd, "two", NULL) == 0);
	MUST(rmdir(path) == 0);
	return 0;
}
