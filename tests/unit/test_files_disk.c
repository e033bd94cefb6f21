/* File operations of the real cove-init on a disk that is full. */
#include "file_client.h"
#include "small_disk.h"
#include "tap.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>

static char path[SMALL_DISK_PATH];

static void fill_disk(unsigned mib)
{
	static const char zeros[16 << 20];
	char name[64];

	small_disk_mount(path, mib);
	snprintf(name, sizeof(name), "%s/fill", path);
	autoclose int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	CHECK_EQ(fd_write_full(fd, zeros, (mib << 20) - (128 << 10)), 0);
}

/* Uploads more than there is room for, to a box with that limit. */
static void upload(const char *limit, struct client_result *ret)
{
	static const char data[256 << 10];
	const char *const args[] = {"--single", "--cwd",  path, "--disk-limit",
				    limit,	"--disk", path, NULL};
	struct client c = client_start(args);
	uint32_t id = client_begin(&c, &(struct wire_file){.op = FILE_PUT, .path = "new/big"});

	client_put_file(&c, id, "", 0644, data, sizeof(data));
	client_entry(&c, id, &(struct wire_entry){.type = 'E'});
	*ret = client_finish(&c, id);
	client_stop(&c);
}

TEST(a_limit_that_is_reached_is_named)
{
	struct client_result r;

	fill_disk(1);
	upload("1048576", &r);
	CHECK_EQ(r.code, ENOSPC);
	printf("# %s\n", r.msg);
	CHECK(strstr(r.msg, "no space left: the box's own disk limit of 1 MiB is reached") != NULL);
	client_result_done(&r);
	small_disk_unmount(path);
}

/* A full disk of the host is not the box's limit. */
TEST(without_a_limit_or_beyond_it_nobody_is_blamed)
{
	static const char *const limits[] = {"0", "1048576"};
	struct client_result r;

	fill_disk(16);
	for (size_t i = 0; i < 2; i++) {
		upload(limits[i], &r);
		CHECK_EQ(r.code, ENOSPC);
		CHECK(strstr(r.msg, "limit") == NULL);
		client_result_done(&r);
	}
	small_disk_unmount(path);
}

TAP_MAIN
