/* Where writes live: limits that hold, disks that are found again, and nothing left behind. */
#include "disk_rig.h"
#include "storage/ext4.h"
#include "storage/loopdev.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/xattr.h>

enum { MIB = 1 << 20 };

TEST(found_by_name_and_by_what_is_there)
{
	struct storage_place box, named;
	int fd;

	home_open(&home);
	CHECK(storage_find("plain") == &storage_plain);
	CHECK(storage_find("loop") == &storage_loop);
	CHECK(storage_find("tmpfs") == &storage_tmpfs);
	CHECK(storage_find("") == NULL && storage_find("btrfs") == NULL);
	box = disk_place("a");
	CHECK(storage_detect(&box) == &storage_plain);
	fd = openat(box.dir_fd, "disk.img", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	close(fd);
	CHECK(storage_detect(&box) == &storage_loop);
	named = (struct storage_place){.dir_fd = box.dir_fd, .name = "w"};
	CHECK(storage_detect(&named) == &storage_plain);
	/* A box could put a link into a directory of its own: never followed. */
	CHECK_EQ(symlinkat("disk.img", box.dir_fd, "w.img"), 0);
	CHECK(storage_detect(&named) == &storage_plain);
}

TEST(without_root_it_says_what_to_do)
{
	const struct ids user = {.kind = IDS_SUBORDINATE};

	CHECK(storage_loop.check(&(struct storage_place){.dir_fd = -1}, &user, &why) < 0);
	CHECK_EQ(why.kind, ERR_UNSUPPORTED);
	CHECK(strstr(why.msg, "root") && strstr(why.msg, "tmpfs"));
}

TEST(memory_is_tried_and_only_measured_by_the_wall)
{
	struct storage_place p;
	struct volume v;
	struct ids ids;

	CHECK_EQ(ids_detect(&ids, NULL, 0, &why), 0);
	if (storage_tmpfs.check(&(struct storage_place){.dir_fd = -1}, &ids, &why) < 0)
		SKIP(why.msg);
	home_open(&home);
	p = disk_place("a");
	CHECK_EQ(storage_tmpfs.open(&p, &ids, &(struct storage_size){.bytes = 5, .inodes = 7}, &v,
				    &why),
		 0);
	CHECK(v.ops == &storage_tmpfs && v.bytes == 5 && v.inodes == 7 && v.mount_fd == -1);
	/* Empty files take no byte of a tmpfs: how many there may be follows from its size. */
	CHECK_EQ(storage_tmpfs.open(&p, &ids, &(struct storage_size){.bytes = 32 << 20}, &v, &why),
		 0);
	CHECK_EQ(v.inodes, 4096);
	volume_done(&v);
	CHECK_EQ(storage_tmpfs.remove(&p, &ids, &why), 0);
}

TEST(a_plain_volume_says_nothing_about_its_use)
{
	struct volume_usage u;
	struct storage_place p;
	struct volume v;

	home_open(&home);
	p = disk_place("a");
	CHECK_EQ(storage_plain.open(&p, &root_ids, &(struct storage_size){0}, &v, &why), 0);
	volume_usage(&v, &u);
	CHECK(u.bytes == 0 && u.bytes_limit == 0 && u.files == 0 && u.files_limit == 0);
	volume_done(&v);
	volume_done(&v);
}

/* About as much as the limit can be written, never more, whatever the size and the kind. */
TEST(limits_hold)
{
	static const uint64_t sizes[] = {MIB, 5555555, 32 * MIB, 100 * MIB};

	disk_need();
	for (int kind = 0; kind < 2; kind++)
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			struct storage_place p = disk_place(kind ? "kept" : "thrown");
			struct volume v = disk_open_at(
				&p, (struct storage_size){.bytes = sizes[i], .throw_away = !kind});
			struct volume_usage u;
			uint64_t wrote;
			int code;

			wrote = disk_fill(v.stat_fd, "upper/f", 2 * sizes[i], &code);
			CHECK_EQ(code, ENOSPC);
			CHECK(wrote <= sizes[i]);
			CHECK(wrote + sizes[i] / 50 + MIB / 2 >= sizes[i]);
			volume_usage(&v, &u);
			CHECK(u.bytes <= u.bytes_limit && u.bytes_limit <= sizes[i]);
			CHECK(v.bytes == u.bytes_limit && v.inodes == u.files_limit);
			CHECK_EQ(u.files, 4); /* upper, work, lost+found and f */
			volume_done(&v);
			CHECK_EQ(storage_loop.remove(&p, &root_ids, &why), 0);
			CHECK(storage_detect(&p) == &storage_plain);
		}
	disk_devices_become(0);
}

/* What is told before the disk is attached is what is there afterwards. */
TEST(a_disk_that_is_attached_later)
{
	const struct storage_size size = {.bytes = 32 * MIB, .throw_away = true, .late = true};
	struct storage_place p;
	struct volume_usage u;
	struct volume v;
	uint64_t bytes, inodes;

	disk_need();
	p = disk_place("a");
	CHECK_EQ(storage_loop.open(&p, &root_ids, &size, &v, &why), 0);
	CHECK(v.file_fd >= 0 && v.mount_fd < 0 && v.stat_fd < 0);
	CHECK_EQ(disk_devices(), 0);
	CHECK_EQ(count_names(p.dir_fd), 0); /* whoever is killed leaves nothing behind */
	bytes = v.bytes;
	inodes = v.inodes;
	CHECK_EQ(volume_attach(&v, &why), 0);
	CHECK(v.file_fd < 0 && v.mount_fd >= 0);
	CHECK_EQ(disk_devices(), 1);
	volume_usage(&v, &u);
	CHECK_EQ(u.bytes_limit, bytes);
	CHECK_EQ(u.files_limit, inodes);
	CHECK_EQ(volume_attach(&v, &why), 0); /* twice is fine */
	volume_done(&v);
	disk_devices_become(0);
	CHECK_EQ(storage_loop.remove(&p, &root_ids, &why), 0);

	/* Never attached at all. */
	CHECK_EQ(storage_loop.open(&p, &root_ids, &size, &v, &why), 0);
	volume_done(&v);
	CHECK_EQ(v.file_fd, -1);
	CHECK_EQ(disk_devices(), 0);
}

TEST(a_disk_that_is_spoilt_before_it_is_attached)
{
	const struct storage_size size = {.bytes = 32 * MIB, .throw_away = true, .late = true};
	struct storage_place p;
	struct volume v;
	int nothing;

	disk_need();
	p = disk_place("a");
	CHECK_EQ(storage_loop.open(&p, &root_ids, &size, &v, &why), 0);
	nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
	CHECK_EQ(dup3(nothing, v.from_fd, O_CLOEXEC), v.from_fd);
	close(nothing);
	CHECK(volume_attach(&v, &why) < 0);
	CHECK(v.mount_fd < 0 && v.stat_fd < 0 && v.file_fd < 0 && v.from_fd < 0);
	volume_done(&v);
	disk_devices_become(0);
}

TEST(sizes_that_make_no_sense)
{
	static const uint64_t sizes[] = {1, MIB - 1, (8ull << 40) + 1, UINT64_MAX};
	struct storage_place p;

	disk_need();
	p = disk_place("a");
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct volume v = VOLUME_NONE;

		CHECK(storage_loop.open(&p, &root_ids, &(struct storage_size){.bytes = sizes[i]},
					&v, &why) < 0);
		CHECK_EQ(why.kind, ERR_INVALID);
	}
	CHECK_EQ(count_names(p.dir_fd), 0);
	CHECK_EQ(disk_devices(), 0);
}

TEST(files_are_bounded_too)
{
	struct storage_place p;
	struct volume v;
	int made = 0, links = 0, upper;

	disk_need();
	p = disk_place("a");
	v = disk_open_at(&p, (struct storage_size){.bytes = 32 * MIB, .inodes = 1000});
	upper = openat(v.stat_fd, "upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int fd; made < 5000; made++) {
		char name[16];

		snprintf(name, sizeof(name), "%d", made);
		fd = openat(upper, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
		if (fd < 0)
			break;
		close(fd);
	}
	CHECK_EQ(errno, ENOSPC);
	CHECK(made >= 980 && (uint64_t)made <= v.inodes);
	/* Names of one file cost no inode: what bounds them is ext4's own number and the room for
	 * the directory. */
	for (; links < 100000; links++) {
		char name[16];

		snprintf(name, sizeof(name), "l%d", links);
		if (linkat(upper, "0", upper, name, 0) < 0)
			break;
	}
	CHECK(links < 65536 && (errno == EMLINK || errno == ENOSPC));
	close(upper);
	volume_done(&v);
}

TEST(holes_cost_nothing_and_open_files_go_on_counting)
{
	struct volume_usage before, full, after;
	struct storage_place p;
	struct volume v;
	int fd, code;

	disk_need();
	p = disk_place("a");
	v = disk_open_at(&p, (struct storage_size){.bytes = 16 * MIB});
	volume_usage(&v, &before);
	fd = openat(v.stat_fd, "upper/f", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	CHECK_EQ(ftruncate(fd, 1ll << 40), 0);
	volume_usage(&v, &full);
	CHECK(full.bytes - before.bytes < MIB);
	CHECK_EQ(pwrite(fd, "x", 1, (1ll << 40) - 1), 1);
	CHECK(disk_fill(v.stat_fd, "upper/f", 64 * MIB, &code) <= 16 * MIB);
	CHECK_EQ(code, ENOSPC);
	CHECK_EQ(unlinkat(v.stat_fd, "upper/f", 0), 0);
	volume_usage(&v, &full);
	CHECK(full.bytes > 15 * MIB);
	CHECK_EQ(disk_fill(v.stat_fd, "upper/g", 4 * MIB, &code) / (4 * MIB), 0);
	CHECK_EQ(code, ENOSPC);
	close(fd);
	CHECK_EQ(unlinkat(v.stat_fd, "upper/g", 0), 0);
	CHECK_EQ(syncfs(openat(v.stat_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)), 0);
	volume_usage(&v, &after);
	CHECK(after.bytes < before.bytes + MIB);
	CHECK_EQ(disk_fill(v.stat_fd, "upper/g", 8 * MIB, &code), 8 * MIB);
	CHECK_EQ(code, 0);
	volume_done(&v);
}

/* Full to the last block, stopped and started again: it is there, and there is room again once
 * something was deleted, on the host too. */
TEST(full_stopped_and_started_again)
{
	struct storage_place p;
	struct volume v;
	struct stat full, empty;
	int code;

	disk_need();
	p = disk_place("a");
	v = disk_open_at(&p, (struct storage_size){.bytes = 64 * MIB});
	disk_fill(v.stat_fd, "upper/f", 100 * MIB, &code);
	CHECK_EQ(code, ENOSPC);
	volume_done(&v);
	disk_devices_become(0);
	CHECK_EQ(fstatat(p.dir_fd, "disk.img", &full, 0), 0);
	CHECK(full.st_blocks * 512 > 60 * MIB);
	/* Another limit does not change a disk that is there. */
	v = disk_open_at(&p, (struct storage_size){.bytes = 200 * MIB});
	CHECK(v.bytes <= 64 * MIB);
	CHECK_EQ(faccessat(v.stat_fd, "upper/f", F_OK, 0), 0);
	CHECK_EQ(unlinkat(v.stat_fd, "upper/f", 0), 0);
	volume_done(&v);
	/* Deleted just before the end: given back at the next start, all but 8 MiB. */
	v = disk_open_at(&p, (struct storage_size){.bytes = 64 * MIB});
	volume_done(&v);
	disk_devices_become(0);
	CHECK_EQ(fstatat(p.dir_fd, "disk.img", &empty, 0), 0);
	CHECK(empty.st_blocks * 512 < 16 * MIB);
}

/* One filesystem, however many open it; the device that is remembered may be anybody's by now. */
TEST(two_users_share_one_device)
{
	static const char *const lies[] = {"0", "1", "7", "4095", "99999999999", "-1", "", "x"};
	struct storage_place p;
	struct volume a, b;
	int fd;

	disk_need();
	p = disk_place("a");
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		a = disk_open_at(&p, (struct storage_size){.bytes = 16 * MIB});
		b = disk_open_at(&p, (struct storage_size){.bytes = 16 * MIB});
		CHECK_EQ(disk_devices(), 1);
		CHECK(mkdirat(a.stat_fd, "upper/d", 0700) == 0);
		CHECK_EQ(faccessat(b.stat_fd, "upper/d", F_OK, 0), 0);
		volume_done(&a);
		CHECK_EQ(disk_devices(), 1);
		CHECK_EQ(unlinkat(b.stat_fd, "upper/d", AT_REMOVEDIR), 0);
		volume_done(&b);
		disk_devices_become(0);
		fd = openat(p.dir_fd, "disk.img", O_RDWR | O_CLOEXEC);
		CHECK(!loopdev_has(fd));
		CHECK_EQ(fsetxattr(fd, "trusted.cove.loop", lies[i], strlen(lies[i]), 0), 0);
		CHECK(!loopdev_has(fd));
		close(fd);
	}
}

/* The number is lost while the device lives: refused, or found again, but never a second device. */
TEST(a_lost_number_makes_no_second_device)
{
	struct storage_place p;
	struct volume a, b = VOLUME_NONE;
	char number[16] = "";
	pid_t pid;
	int fd, status;

	disk_need();
	p = disk_place("a");
	a = disk_open_at(&p, (struct storage_size){.bytes = 16 * MIB});
	fd = openat(p.dir_fd, "disk.img", O_RDWR | O_CLOEXEC);
	CHECK(fgetxattr(fd, "trusted.cove.loop", number, sizeof(number) - 1) > 0);
	CHECK_EQ(fremovexattr(fd, "trusted.cove.loop"), 0);
	pid = fork();
	if (pid == 0) {
		b = disk_open_at(&p, (struct storage_size){.bytes = 16 * MIB});
		CHECK_EQ(mkdirat(b.stat_fd, "upper/b", 0700), 0);
		CHECK_EQ(disk_devices(), 1);
		_exit(0);
	}
	for (int i = 0; i < 20; i++) {
		CHECK_EQ(disk_devices(), 1);
		CHECK_EQ(waitpid(pid, &status, WNOHANG), 0);
		poll(NULL, 0, 10);
	}
	CHECK_EQ(fsetxattr(fd, "trusted.cove.loop", number, strlen(number), 0), 0);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK_EQ(faccessat(a.stat_fd, "upper/b", F_OK, 0), 0);
	/* With the device gone the claim is gone. */
	CHECK_EQ(fremovexattr(fd, "trusted.cove.loop"), 0);
	volume_done(&a);
	a = disk_open_at(&p, (struct storage_size){.bytes = 16 * MIB});
	CHECK_EQ(faccessat(a.stat_fd, "upper/b", F_OK, 0), 0);
	volume_done(&a);
	disk_devices_become(0);
}

TEST(eight_openers_at_once)
{
	enum { OPENERS = 8, ROUNDS = 20 };
	struct storage_place p;
	struct volume v;

	disk_need();
	p = disk_place("a");
	disk_open_at(&p, (struct storage_size){.bytes = 16 * MIB});
	for (int i = 0; i < OPENERS; i++) {
		if (fork() != 0)
			continue;
		for (int k = 0; k < ROUNDS; k++) {
			char name[32];

			v = disk_open_at(&p, (struct storage_size){.bytes = 16 * MIB});
			snprintf(name, sizeof(name), "upper/%d-%d", i, k);
			CHECK_EQ(mkdirat(v.stat_fd, name, 0700), 0);
			volume_done(&v);
		}
		_exit(0);
	}
	for (int i = 0, status; i < OPENERS; i++)
		CHECK(wait(&status) > 0 && status == 0);
	v = disk_open_at(&p, (struct storage_size){.bytes = 16 * MIB});
	CHECK_EQ(count_names(openat(v.stat_fd, "upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC)),
		 OPENERS * ROUNDS);
}

/* What was fsynced is there after a kill, and no device is left. */
TEST(killed_while_it_wrote)
{
	enum { ROUNDS = 10 };
	struct storage_place p;
	struct volume v;

	disk_need();
	p = disk_place("a");
	for (int i = 0; i < ROUNDS; i++) {
		char name[32], byte;
		int pair[2], status, code;
		pid_t pid;

		CHECK_EQ(pipe2(pair, O_CLOEXEC), 0);
		snprintf(name, sizeof(name), "upper/f%d", i);
		pid = fork();
		if (pid == 0) {
			v = disk_open_at(&p, (struct storage_size){.bytes = 32 * MIB});
			disk_fill(v.stat_fd, name, MIB, &code);
			CHECK_EQ(fsync(openat(v.stat_fd, "upper", O_RDONLY | O_CLOEXEC)), 0);
			CHECK(code == 0 && write(pair[1], "x", 1) == 1);
			for (;;)
				disk_fill(v.stat_fd, "upper/more", 8 * MIB, &code);
		}
		close(pair[1]);
		CHECK_EQ(read(pair[0], &byte, 1), 1);
		kill(pid, SIGKILL);
		CHECK(waitpid(pid, &status, 0) == pid);
		close(pair[0]);
		/* At once, while the kernel may still be taking the first mount away. */
		v = disk_open_at(&p, (struct storage_size){.bytes = 32 * MIB});
		for (int k = 0; k <= i; k++) {
			struct stat st;

			snprintf(name, sizeof(name), "upper/f%d", k);
			CHECK_EQ(fstatat(v.stat_fd, name, &st, 0), 0);
			CHECK_EQ(st.st_size, MIB);
		}
		volume_done(&v);
	}
	disk_devices_become(0);
}

/* As a sudden loss of power leaves it: the journal is replayed. */
TEST(a_disk_that_was_not_unmounted)
{
	struct storage_place p, q;
	struct volume v;
	char cmd[400];
	int code;

	disk_need();
	p = disk_place("a");
	q = disk_place("b");
	v = disk_open_at(&p, (struct storage_size){.bytes = 32 * MIB});
	CHECK_EQ(disk_fill(v.stat_fd, "upper/f", MIB, &code), MIB);
	CHECK_EQ(fsync(openat(v.stat_fd, "upper", O_RDONLY | O_CLOEXEC)), 0);
	snprintf(cmd, sizeof(cmd), "%s/boxes/a/disk.img", home_path);
	{
		int from = open(cmd, O_RDONLY | O_CLOEXEC);
		int to = openat(q.dir_fd, "disk.img", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
		static char bytes[MIB];
		ssize_t n;

		while ((n = read(from, bytes, sizeof(bytes))) > 0)
			CHECK_EQ(write(to, bytes, (size_t)n), n);
		close(from);
		close(to);
	}
	volume_done(&v);
	v = disk_open_at(&q, (struct storage_size){.bytes = 32 * MIB});
	CHECK_EQ(faccessat(v.stat_fd, "upper/f", F_OK, 0), 0);
	volume_done(&v);
}

TEST(a_damaged_disk_is_named)
{
	struct storage_place p;
	struct volume v;
	int fd;

	disk_need();
	p = disk_place("a");
	v = disk_open_at(&p, (struct storage_size){.bytes = 16 * MIB});
	volume_done(&v);
	disk_devices_become(0);
	fd = openat(p.dir_fd, "disk.img", O_RDWR | O_CLOEXEC);
	CHECK_EQ(pwrite(fd, "garbage", 7, 1024 + 50), 7);
	close(fd);
	CHECK(storage_loop.open(&p, &root_ids, &(struct storage_size){.bytes = 16 * MIB}, &v,
				&why) < 0);
	CHECK(strstr(why.msg, "boxes/a/disk.img") && strstr(why.msg, "e2fsck"));
	disk_devices_become(0);
	/* Things that are no disk at all. */
	CHECK_EQ(storage_loop.remove(&p, &root_ids, &why), 0);
	CHECK_EQ(storage_loop.remove(&p, &root_ids, &why), 0);
	CHECK_EQ(mkfifoat(p.dir_fd, "disk.img", 0600), 0);
	CHECK(storage_loop.open(&p, &root_ids, &(struct storage_size){.bytes = MIB}, &v, &why) < 0);
	CHECK_EQ(unlinkat(p.dir_fd, "disk.img", 0), 0);
	CHECK_EQ(symlinkat("/dev/null", p.dir_fd, "disk.img"), 0);
	CHECK(storage_loop.open(&p, &root_ids, &(struct storage_size){.bytes = MIB}, &v, &why) < 0);
	CHECK_EQ(disk_devices(), 0);
}

TEST(templates_are_few_and_whole)
{
	int dir, fd;

	disk_need();
	CHECK_EQ(mkdirat(home.home_fd, "templates", 0700), 0);
	dir = openat(home.home_fd, "templates", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* What somebody left who was killed. */
	fd = openat(dir, ".new-0123456789abcdef", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	CHECK_EQ(ftruncate(fd, MIB), 0);
	close(fd);
	for (int i = 0; i < 24; i++) {
		struct storage_place p = disk_place("a");
		struct volume v =
			disk_open_at(&p, (struct storage_size){.bytes = (uint64_t)(i + 2) * MIB,
							       .throw_away = true});

		volume_done(&v);
		CHECK_EQ(storage_loop.remove(&p, &root_ids, &why), 0);
	}
	CHECK(count_names(dir) <= 16 + 1); /* and the seed */
	CHECK(faccessat(dir, ".new-0123456789abcdef", F_OK, 0) < 0);
	disk_devices_become(0);
}

TEST(makers_of_one_template_do_not_meet)
{
	enum { MAKERS = 24 }; /* more than templates are kept */

	disk_need();
	for (int i = 0; i < MAKERS; i++) {
		char name[8];

		if (fork() != 0)
			continue;
		snprintf(name, sizeof(name), "b%d", i);
		for (int k = 0; k < 2; k++) {
			struct storage_place p = disk_place(name);
			struct volume v = disk_open_at(
				&p, (struct storage_size){.bytes = (uint64_t)(k + 8) * MIB,
							  .throw_away = true});

			CHECK_EQ(mkdirat(v.stat_fd, "upper/d", 0700), 0);
			volume_done(&v);
			CHECK_EQ(storage_loop.remove(&p, &root_ids, &why), 0);
		}
		_exit(0);
	}
	for (int i = 0, status; i < MAKERS; i++)
		CHECK(wait(&status) > 0 && status == 0);
	disk_devices_become(0);
}

/* The host's disk is full: errors inside, errors outside, and nobody hangs. */
TEST(the_hosts_own_disk_is_full)
{
	char path[96];
	struct storage_place p;
	struct volume v;
	int code, fd;

	disk_need();
	CHECK_EQ(unshare(CLONE_NEWNS), 0);
	CHECK_EQ(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	snprintf(path, sizeof(path), "%s/boxes", home_path);
	CHECK_EQ(mount("small", path, "tmpfs", 0, "size=8m"), 0);
	close(home.boxes_fd);
	home.boxes_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	p = disk_place("a");
	v = disk_open_at(&p, (struct storage_size){.bytes = 64 * MIB});
	disk_fill(v.stat_fd, "upper/f", 32 * MIB, &code);
	CHECK(code == ENOSPC || code == EIO || code == EROFS);
	volume_done(&v);
	CHECK_EQ(storage_loop.remove(&p, &root_ids, &why), 0);
	disk_devices_become(0);
	/* No room even for a new one: nothing of it is left. */
	fd = openat(home.boxes_fd, "filler", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	while (write(fd, path, sizeof(path)) > 0)
		;
	close(fd);
	CHECK(storage_loop.open(&p, &root_ids, &(struct storage_size){.bytes = 64 * MIB}, &v,
				&why) < 0);
	CHECK_EQ(why.kind, ERR_FULL);
	CHECK_EQ(count_names(p.dir_fd), 0);
	CHECK_EQ(unlinkat(home.boxes_fd, "filler", 0), 0);
	v = disk_open_at(&p, (struct storage_size){.bytes = 64 * MIB});
	CHECK_EQ(disk_fill(v.stat_fd, "upper/f", MIB, &code), MIB);
	volume_done(&v);
	close(p.dir_fd);
	CHECK_EQ(umount2(path, MNT_DETACH), 0);
}

TEST(hundred_rounds_leave_nothing)
{
	int before, after;

	disk_need();
	before = count_names(open("/proc/self/fd", O_RDONLY | O_DIRECTORY));
	for (int i = 0; i < 100; i++) {
		struct storage_place p = disk_place("a");
		struct volume v = disk_open_at(
			&p, (struct storage_size){.bytes = 8 * MIB, .throw_away = i % 2});
		int code;

		if (i % 10 == 0)
			disk_fill(v.stat_fd, "upper/f", 6 * MIB, &code);
		volume_done(&v);
		CHECK_EQ(storage_loop.remove(&p, &root_ids, &why), 0);
		close(p.dir_fd);
	}
	after = count_names(open("/proc/self/fd", O_RDONLY | O_DIRECTORY));
	CHECK(after <= before + 1);
	disk_devices_become(0);
}

/* Deleting before unmounting takes what the box left, deep and locked, and never its neighbour. */
TEST(what_is_thrown_away_goes_at_once)
{
	struct storage_place p;
	struct volume v;
	struct stat st;
	int code;

	disk_need();
	p = disk_place("a");
	v = disk_open_at(&p, (struct storage_size){.bytes = 64 * MIB, .throw_away = true});
	CHECK_EQ(mkdirat(v.stat_fd, "upper/d", 0700), 0);
	CHECK_EQ(mkdirat(v.stat_fd, "upper/d/e", 0700), 0);
	CHECK_EQ(symlinkat(home_path, v.stat_fd, "upper/link"), 0);
	CHECK_EQ(disk_fill(v.stat_fd, "upper/d/e/f", 32 * MIB, &code), 32 * MIB);
	CHECK_EQ(fchmodat(v.stat_fd, "upper/d/e", 0, 0), 0);
	volume_done(&v);
	disk_devices_become(0);
	CHECK_EQ(fstatat(home.boxes_fd, "a/disk.img", &st, 0), 0);
	CHECK_EQ(storage_loop.remove(&p, &root_ids, &why), 0);
}

TAP_MAIN
