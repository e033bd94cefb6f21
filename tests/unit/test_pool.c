/* The pool: limits that hold, volumes that are apart, snapshots, and nothing left behind. */
#include "base/str.h"
#include "pool_rig.h"
#include "storage/btrfs.h"
#include "storage/pool_internal.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#define CLONE_FILE 0x40049409 /* FICLONE */

static int upper_of(const struct volume *v)
{
	int fd = openat(v->stat_fd, "upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	CHECK(fd >= 0);
	return fd;
}

static bool exists(int dir_fd, const char *path)
{
	struct stat st;

	return fstatat(dir_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

TEST(without_a_pool_it_says_what_to_do)
{
	const struct ids user = {.kind = IDS_SUBORDINATE};
	struct storage_place p;

	home_open(&home);
	p = disk_place("a");
	CHECK(!pool_is_ready(home.home_fd));
	CHECK(storage_pool.check(&p, &user, &why) < 0);
	CHECK_EQ(why.kind, ERR_UNSUPPORTED);
	CHECK(storage_pool.check(&p, &root_ids, &why) < 0);
	CHECK_EQ(why.kind, ERR_UNSUPPORTED);
	CHECK(strstr(why.msg, "--setup-storage"));
	CHECK_EQ(storage_pool.remove(&p, &root_ids, &why), 0);
	CHECK_EQ(pool_sweep(home.home_fd, home.boxes_fd, home.workspaces_fd, &root_ids, &why), 0);
	CHECK_EQ(pool_layer_remove(home.home_fd, "x", &why), 0);
	CHECK(!exists(home.home_fd, "pool"));
}

TEST(a_limit_holds_and_is_known)
{
	struct volume_usage usage;
	struct storage_place p;
	struct volume v, other;
	uint64_t wrote;
	int upper, code;

	pool_need(512 * POOL_MIB);
	p = disk_place("a");
	v = pool_volume(&p, 50 * POOL_MIB);
	CHECK(storage_detect(&p) == &storage_pool);
	CHECK_EQ(v.bytes, 50 * POOL_MIB);
	CHECK(!volume_is_full(&v));
	upper = upper_of(&v);
	wrote = disk_fill(upper, "f", 200 * POOL_MIB, &code);
	CHECK_EQ(code, EDQUOT);
	CHECK(wrote <= 50 * POOL_MIB && wrote >= 49 * POOL_MIB);
	CHECK(volume_is_full(&v));
	volume_usage(&v, &usage);
	CHECK_EQ(usage.bytes_limit, 50 * POOL_MIB);
	CHECK(usage.bytes >= wrote && usage.bytes <= 50 * POOL_MIB);
	/* Who only looks changes nothing; who starts a box has a little more until it is up. */
	other = pool_volume(&p, 50 * POOL_MIB);
	CHECK(!other.pool.eased);
	volume_done(&other);
	CHECK_EQ(storage_pool.open(&p, &root_ids,
				   &(struct storage_size){.bytes = 50 * POOL_MIB, .late = true},
				   &other, &why),
		 0);
	CHECK(volume_is_late(&other) && volume_attach(&other, &why) == 0);
	CHECK(other.pool.eased && !volume_is_late(&other));
	CHECK_EQ(mkdirat(upper, "d", 0700), 0);
	CHECK_EQ(volume_tighten(&other, &why), 0);
	CHECK(mkdirat(upper, "e", 0700) < 0 && errno == EDQUOT);
	volume_done(&other);
	/* Who is full can still delete, and is not called full after that. */
	CHECK_EQ(unlinkat(upper, "f", 0), 0);
	CHECK(!volume_is_full(&v));
	CHECK_EQ(disk_fill(upper, "g", 30 * POOL_MIB, &code), 30 * POOL_MIB);
	CHECK_EQ(code, 0);
	volume_done(&v);
	/* It stands in the pool, not in whoever opened it. */
	v = pool_volume(&p, 0);
	CHECK_EQ(v.bytes, 50 * POOL_MIB);
	volume_done(&v);
	v = pool_volume(&p, 40 * POOL_MIB);
	CHECK_EQ(v.bytes, 40 * POOL_MIB);
	wrote = disk_fill(upper, "h", 50 * POOL_MIB, &code);
	CHECK(code == EDQUOT && wrote <= 10 * POOL_MIB);
	close(upper);
	volume_done(&v);
}

/* What is written once is counted once, however many names and references it has; and what is
 * still referenced, if only by a part, is counted. */
TEST(links_clones_and_holes_are_no_way_around)
{
	struct storage_place p;
	struct volume v;
	int upper, fd, code;
	uint64_t all = 0;
	char name[32];

	pool_need(512 * POOL_MIB);
	p = disk_place("a");
	v = pool_volume(&p, 20 * POOL_MIB);
	upper = upper_of(&v);
	CHECK_EQ(disk_fill(upper, "f", 8 * POOL_MIB, &code), 8 * POOL_MIB);
	for (int i = 0; i < 50; i++) {
		autoclose int from = openat(upper, "f", O_RDONLY | O_CLOEXEC);

		snprintf(name, sizeof(name), "clone-%d", i);
		fd = openat(upper, name, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
		CHECK(fd >= 0 && ioctl(fd, CLONE_FILE, from) == 0);
		close(fd);
		snprintf(name, sizeof(name), "link-%d", i);
		CHECK_EQ(linkat(upper, "f", upper, name, 0), 0);
	}
	/* Every clone overwritten would be 8 MiB of its own. */
	for (int i = 0; i < 50; i++) {
		snprintf(name, sizeof(name), "clone-%d", i);
		all += disk_fill(upper, name, 8 * POOL_MIB, &code);
	}
	CHECK(all < 12 * POOL_MIB);
	for (int i = 0; i < 50; i++) {
		snprintf(name, sizeof(name), "clone-%d", i);
		CHECK_EQ(unlinkat(upper, name, 0), 0);
	}
	fd = openat(upper, "hole", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && ftruncate(fd, 1ll << 40) == 0);
	CHECK(fallocate(fd, 0, 0, 64 * POOL_MIB) < 0 && errno == EDQUOT);
	close(fd);
	close(upper);
	volume_done(&v);
}

TEST(many_empty_files_are_bounded_by_their_bytes)
{
	struct storage_place p;
	struct volume v;
	int upper, made = 0;
	char name[32];

	pool_need(512 * POOL_MIB);
	p = disk_place("a");
	v = pool_volume(&p, 4 * POOL_MIB);
	upper = upper_of(&v);
	for (int fd; made < 100000; made++) {
		snprintf(name, sizeof(name), "f%d", made);
		fd = openat(upper, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
		if (fd < 0)
			break;
		close(fd);
	}
	CHECK_EQ(errno, EDQUOT);
	CHECK(made > 100 && made < 50000);
	close(upper);
	volume_done(&v);
	CHECK_EQ(storage_pool.remove(&p, &root_ids, &why), 0);
}

TEST(a_box_sees_its_own_volume_only)
{
	struct storage_place a, b;
	struct volume va, vb;
	struct stat root, above;
	int code;

	pool_need(512 * POOL_MIB);
	a = disk_place("a");
	b = disk_place("b");
	va = pool_volume(&a, 10 * POOL_MIB);
	vb = pool_volume(&b, 10 * POOL_MIB);
	CHECK_EQ(fstat(va.mount_fd, &root), 0);
	CHECK_EQ(fstatat(va.mount_fd, "../../../..", &above, 0), 0);
	CHECK(root.st_ino == above.st_ino && root.st_dev == above.st_dev);
	CHECK(exists(va.mount_fd, "upper") && exists(va.mount_fd, "work"));
	CHECK(!exists(va.mount_fd, "../boxes") && !exists(va.mount_fd, "../v"));
	/* One that is full leaves the other all of its own. */
	disk_fill(va.stat_fd, "upper/f", 40 * POOL_MIB, &code);
	CHECK_EQ(code, EDQUOT);
	CHECK_EQ(disk_fill(vb.stat_fd, "upper/f", 9 * POOL_MIB, &code), 9 * POOL_MIB);
	volume_done(&va);
	volume_done(&vb);
}

TEST(removing_gives_everything_back_and_is_idempotent)
{
	struct storage_place p;
	struct volume v;
	int code;

	pool_need(512 * POOL_MIB);
	p = disk_place("a");
	v = pool_volume(&p, 100 * POOL_MIB);
	CHECK_EQ(disk_fill(v.stat_fd, "upper/f", 50 * POOL_MIB, &code), 50 * POOL_MIB);
	CHECK_EQ(pool_volumes(), 1);
	/* While it is mounted, as a keeper does it, and by who deletes its directory. */
	CHECK_EQ(volume_drop(&v, &root_ids, &why), 0);
	CHECK_EQ(volume_drop(&v, &root_ids, &why), 0);
	CHECK_EQ(pool_volumes(), 0);
	volume_done(&v);
	CHECK_EQ(storage_delete(home.home_fd, home.boxes_fd, "a", &root_ids, &why), 0);
	CHECK_EQ(storage_delete(home.home_fd, home.boxes_fd, "a", &root_ids, &why), 0);
	CHECK(!exists(home.boxes_fd, "a"));
	p = disk_place("b");
	v = pool_volume(&p, 100 * POOL_MIB);
	volume_done(&v);
	CHECK_EQ(storage_delete(home.home_fd, home.boxes_fd, "b", &root_ids, &why), 0);
	CHECK_EQ(pool_volumes(), 0);
	CHECK_EQ(pool_teardown(home.home_fd, &why), 0);
	CHECK(!exists(home.home_fd, "pool") && !exists(home.home_fd, "pool.img"));
	disk_devices_become(0);
}

TEST(an_interrupted_start_is_gone_on_with)
{
	struct storage_place p;
	struct volume v;
	char id[POOL_ID_LEN + 1], path[64];

	pool_need(512 * POOL_MIB);
	p = disk_place("a");
	/* Killed after its name; after its directory; after the subvolume. */
	CHECK_EQ(fsetxattr(p.dir_fd, "trusted.cove.pool", "00112233445566aa", 16, 0), 0);
	v = pool_volume(&p, 10 * POOL_MIB);
	CHECK_STR(v.pool.id, "00112233445566aa");
	CHECK_EQ(unlinkat(v.stat_fd, "upper", AT_REMOVEDIR), 0);
	CHECK_EQ(unlinkat(v.stat_fd, "work", AT_REMOVEDIR), 0);
	volume_done(&v);
	v = pool_volume(&p, 10 * POOL_MIB);
	CHECK(exists(v.stat_fd, "upper") && exists(v.stat_fd, "work"));
	str_copy(id, sizeof(id), v.pool.id);
	CHECK_EQ(btrfs_subvol_remove(v.pool.dir_fd, "v"), 0);
	volume_done(&v);
	v = pool_volume(&p, 10 * POOL_MIB);
	CHECK_STR(v.pool.id, id);
	volume_done(&v);
	/* One that somebody bent is no path. */
	CHECK_EQ(fsetxattr(p.dir_fd, "trusted.cove.pool", "../../images/abc", 16, 0), 0);
	CHECK(storage_pool.open(&p, &root_ids, &(struct storage_size){.bytes = POOL_MIB}, &v,
				&why) < 0);
	CHECK_EQ(storage_delete(home.home_fd, home.boxes_fd, "a", &root_ids, &why), 0);
	snprintf(path, sizeof(path), "pool/boxes/%s", id);
	CHECK(exists(home.home_fd, path)); /* nothing names it: a sweep's, once it is old */
}

TEST(a_sweep_takes_what_nothing_names_and_nothing_else)
{
	struct storage_place a, b, w;
	struct volume va, vb, vw;

	pool_need(512 * POOL_MIB);
	a = disk_place("a");
	b = disk_place("b");
	w = (struct storage_place){
		.home_fd = home.home_fd, .dir_fd = home.workspaces_fd, .name = "w"};
	CHECK_EQ(mkdirat(home.workspaces_fd, "w", 0700), 0);
	va = pool_volume(&a, 10 * POOL_MIB);
	vb = pool_volume(&b, 10 * POOL_MIB);
	vw = pool_volume(&w, 10 * POOL_MIB);
	CHECK_EQ(fremovexattr(a.dir_fd, "trusted.cove.pool"), 0);
	/* It is young: whoever makes it may not be done. */
	CHECK_EQ(pool_sweep(home.home_fd, home.boxes_fd, home.workspaces_fd, &root_ids, &why), 0);
	CHECK_EQ(pool_volumes(), 3);
	CHECK_EQ(pool_sweep_older(home.home_fd, home.boxes_fd, home.workspaces_fd, &root_ids, -1,
				  &why),
		 0);
	CHECK_EQ(pool_volumes(), 2);
	CHECK(exists(vb.stat_fd, "upper"));
	volume_done(&va);
	volume_done(&vb);
	volume_done(&vw);
}

TEST(a_snapshot_is_one_moment_and_stays)
{
	struct storage_place p;
	struct pool_info info;
	struct volume v;
	int code, fd;

	pool_need(512 * POOL_MIB);
	p = disk_place("a");
	v = pool_volume(&p, 100 * POOL_MIB);
	disk_fill(v.stat_fd, "upper/f", 5 * POOL_MIB, &code);
	CHECK_EQ(pool_sync(home.home_fd, &why), 0);
	CHECK_EQ(pool_snapshot(home.home_fd, &p, "layer-1", &why), 0);
	CHECK(pool_snapshot(home.home_fd, &p, "layer-1", &why) < 0);
	CHECK_EQ(why.kind, ERR_CONFLICT);
	CHECK_EQ(unlinkat(v.stat_fd, "upper/f", 0), 0);
	CHECK(exists(home.home_fd, "pool/layers/layer-1/upper/f"));
	fd = openat(home.home_fd, "pool/layers/layer-1/upper/g", O_CREAT | O_WRONLY | O_CLOEXEC,
		    0600);
	CHECK(fd < 0 && errno == EROFS);
	volume_done(&v);
	CHECK_EQ(storage_delete(home.home_fd, home.boxes_fd, "a", &root_ids, &why), 0);
	CHECK_EQ(pool_look(home.home_fd, &info, &why), 0);
	CHECK(info.volumes == 0 && info.layers == 1);
	CHECK(exists(home.home_fd, "pool/layers/layer-1/upper/f"));
	CHECK(pool_teardown(home.home_fd, &why) < 0);
	CHECK_EQ(why.kind, ERR_CONFLICT);
	CHECK_EQ(pool_layer_remove(home.home_fd, "layer-1", &why), 0);
	CHECK_EQ(pool_layer_remove(home.home_fd, "layer-1", &why), 0);
	CHECK_EQ(pool_teardown(home.home_fd, &why), 0);
}

TEST(who_comes_first_after_a_reboot_mounts_it)
{
	struct storage_place p;
	struct volume v;
	int status, code;

	pool_need(512 * POOL_MIB);
	p = disk_place("a");
	v = pool_volume(&p, 10 * POOL_MIB);
	CHECK_EQ(disk_fill(v.stat_fd, "upper/f", POOL_MIB, &code), POOL_MIB);
	volume_done(&v);
	for (int round = 0; round < 3; round++) {
		pool_unmount();
		CHECK(!exists(home.home_fd, "pool/boxes"));
		for (int i = 0; i < 6; i++)
			if (fork() == 0)
				_exit(!pool_is_ready(home.home_fd));
		while (wait(&status) > 0)
			CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
		CHECK_EQ(disk_devices(), 1);
	}
	pool_unmount();
	CHECK(!exists(home.home_fd, "pool/boxes")); /* and mounted once */
	v = pool_volume(&p, 10 * POOL_MIB);
	CHECK(exists(v.stat_fd, "upper/f"));
	volume_done(&v);
}

TEST(a_full_pool_takes_no_more_boxes_and_keeps_those_it_has)
{
	struct storage_place a, b;
	struct volume va, vb = VOLUME_NONE;
	int code;

	pool_need(256 * POOL_MIB);
	a = disk_place("a");
	b = disk_place("b");
	va = pool_volume(&a, 0);
	CHECK_EQ(pool_check_room(home.home_fd, &why), 0);
	disk_fill(va.stat_fd, "upper/f", 512 * POOL_MIB, &code);
	CHECK_EQ(code, ENOSPC);
	CHECK(volume_is_full(&va));
	CHECK(pool_check_room(home.home_fd, &why) < 0);
	CHECK_EQ(why.kind, ERR_FULL);
	CHECK(storage_pool.open(&b, &root_ids, &(struct storage_size){.bytes = POOL_MIB}, &vb,
				&why) < 0);
	CHECK_EQ(why.kind, ERR_FULL);
	CHECK(storage_detect(&b) == &storage_plain);
	volume_done(&va);
	va = pool_volume(&a, 0);
	CHECK_EQ(unlinkat(va.stat_fd, "upper/f", 0), 0);
	volume_done(&va);
	CHECK_EQ(pool_sync(home.home_fd, &why), 0);
	vb = pool_volume(&b, POOL_MIB);
	volume_done(&vb);
}

TEST(setting_up_is_idempotent_and_refuses_nonsense)
{
	struct statfs fs;

	pool_need(512 * POOL_MIB);
	CHECK_EQ(pool_setup(home.home_fd, 512 * POOL_MIB, &why), 0);
	/* One that was killed before the last step is finished. */
	CHECK_EQ(unlinkat(home.home_fd, "pool/boxes", AT_REMOVEDIR), 0);
	CHECK(!pool_is_ready(home.home_fd));
	CHECK_EQ(pool_setup(home.home_fd, 0, &why), 0);
	CHECK(pool_is_ready(home.home_fd));
	CHECK_EQ(pool_teardown(home.home_fd, &why), 0);
	CHECK_EQ(pool_teardown(home.home_fd, &why), 0);
	CHECK(pool_setup(home.home_fd, POOL_MIB, &why) < 0);
	CHECK_EQ(why.kind, ERR_INVALID);
	CHECK_EQ(fstatfs(home.home_fd, &fs), 0);
	CHECK(pool_setup(home.home_fd, (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize * 2, &why) < 0);
	CHECK_EQ(why.kind, ERR_FULL);
	CHECK(!exists(home.home_fd, "pool.img") && !exists(home.home_fd, "pool.new"));
}

/* A state directory on btrfs needs no file. */
TEST(on_btrfs_the_pool_is_a_directory)
{
	struct storage_place p;
	struct pool_info info;
	struct state inner = {0};
	struct volume v = VOLUME_NONE;
	char path[96];
	int code;

	pool_need(512 * POOL_MIB);
	snprintf(path, sizeof(path), "%s/pool/home", home_path);
	CHECK_EQ(mkdir(path, 0700), 0);
	if (state_open(&inner, path, true, &why) < 0)
		FAIL(why.msg);
	CHECK(!pool_is_ready(inner.home_fd));
	if (pool_setup(inner.home_fd, 0, &why) < 0)
		FAIL(why.msg);
	CHECK(pool_is_ready(inner.home_fd) && !exists(inner.home_fd, "pool.img"));
	CHECK_EQ(pool_look(inner.home_fd, &info, &why), 0);
	CHECK(!info.is_file);
	CHECK_EQ(mkdirat(inner.boxes_fd, "a", 0700), 0);
	p = (struct storage_place){.home_fd = inner.home_fd,
				   .dir_fd = openat(inner.boxes_fd, "a", O_RDONLY | O_CLOEXEC)};
	CHECK_EQ(storage_pool.open(&p, &root_ids, &(struct storage_size){.bytes = 5 * POOL_MIB}, &v,
				   &why),
		 0);
	disk_fill(v.stat_fd, "upper/f", 20 * POOL_MIB, &code);
	CHECK_EQ(code, EDQUOT);
	volume_done(&v);
	CHECK_EQ(storage_delete(inner.home_fd, inner.boxes_fd, "a", &root_ids, &why), 0);
	CHECK_EQ(pool_teardown(inner.home_fd, &why), 0);
	CHECK(!exists(inner.home_fd, "pool"));
	state_close(&inner);
}

/* The file as a power cut leaves it: what was synced is there, limits too. */
TEST(a_copy_of_a_file_in_use_is_whole)
{
	struct storage_place p;
	struct volume v;
	char line[400];
	int code;

	pool_need(512 * POOL_MIB);
	p = disk_place("a");
	v = pool_volume(&p, 20 * POOL_MIB);
	CHECK_EQ(disk_fill(v.stat_fd, "upper/synced", POOL_MIB, &code), POOL_MIB); /* fsyncs */
	snprintf(line, sizeof(line), "cp --sparse=always %s/pool.img %s/copy", home_path,
		 home_path);
	CHECK_EQ(system(line), 0);
	disk_fill(v.stat_fd, "upper/later", POOL_MIB, &code);
	volume_done(&v);
	pool_unmount();
	disk_devices_become(0);
	CHECK_EQ(renameat(home.home_fd, "copy", home.home_fd, "pool.img"), 0);
	v = pool_volume(&p, 0);
	CHECK(exists(v.stat_fd, "upper/synced") && !exists(v.stat_fd, "upper/later"));
	CHECK_EQ(v.bytes, 20 * POOL_MIB);
	disk_fill(v.stat_fd, "upper/f", 40 * POOL_MIB, &code);
	CHECK_EQ(code, EDQUOT);
	volume_done(&v);
}

/* For this process and all it starts: the call with that second argument, or with any, fails so. */
static void lack(int call, uint32_t second, int code)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, second, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JA, second ? 1 : 0, 0, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)code),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = sizeof(filter) / sizeof(*filter), .filter = filter};

	CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	CHECK_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

static void refuses_and_leaves_nothing(const char *word)
{
	CHECK(pool_setup(home.home_fd, 512 * POOL_MIB, &why) < 0);
	CHECK_EQ(why.kind, ERR_UNSUPPORTED);
	CHECK(strstr(why.msg, word) && strstr(why.msg, "--storage loop"));
	CHECK(!exists(home.home_fd, "pool.img") && !exists(home.home_fd, "pool.new"));
	CHECK(!exists(home.home_fd, "pool") && !pool_is_ready(home.home_fd));
	disk_devices_become(0);
}

TEST(a_kernel_without_simple_quotas_is_named)
{
	pool_need(512 * POOL_MIB);
	CHECK_EQ(pool_teardown(home.home_fd, &why), 0);
	lack(SYS_ioctl, 0xC0109428, EINVAL);
	refuses_and_leaves_nothing("6.7");
}

TEST(a_kernel_without_btrfs_is_named)
{
	pool_need(512 * POOL_MIB);
	CHECK_EQ(pool_teardown(home.home_fd, &why), 0);
	lack(SYS_fsopen, 0, ENODEV);
	refuses_and_leaves_nothing("btrfs");
}
