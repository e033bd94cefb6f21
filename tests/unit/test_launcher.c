/* What the launcher does by itself: an authority goes back to the spares, or is nobody's again. */
#include "base/fd.h"
#include "keeper/launcher.h"
#include "keeper_rig.h"
#include "tap.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char top[] = "/tmp/cove-launcher.XXXXXX", spares[64], used[64], file[96];

static void ground_make(void)
{
	char door[64];

	CHECK(mkdtemp(top));
	snprintf(door, sizeof(door), "%s/door", top);
	snprintf(spares, sizeof(spares), "%s/door/ca", top);
	snprintf(used, sizeof(used), "%s/door/used", top);
	snprintf(file, sizeof(file), "%s/rig.00.pem", used);
	CHECK(mkdir(door, 0700) == 0 && mkdir(spares, 0700) == 0 && mkdir(used, 0700) == 0);
}

static unsigned count_files(const char *dir)
{
	DIR *d = opendir(dir);
	unsigned n = 0;

	CHECK(d);
	for (struct dirent *e; (e = readdir(d));)
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

static const char *door_path = "/bin/true";

static int launcher_new(const char *ca)
{
	struct door_config config = {.home = top, .box = "rig", .policy = "open", .ca = ca};
	struct err e = {0};
	int launcher = -1, fd = open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	CHECK(fd >= 0);
	close(fd);
	if (launcher_start(&(struct launcher_config){.door_path = door_path, .door = &config},
			   &launcher, &e) < 0)
		FAIL(e.msg);
	return launcher;
}

static void launcher_end(int launcher)
{
	close(launcher);
	while (wait(NULL) > 0)
		;
}

TEST(an_authority_that_no_door_had_goes_back)
{
	int launcher;

	ground_make();
	launcher = launcher_new("rig.00.pem");
	CHECK(count_files(used) == 1 && count_files(spares) == 0);
	launcher_end(launcher);
	CHECK(count_files(used) == 0 && count_files(spares) == 1);
	remove_temporary(top);
}

/* Whatever became of the door: it may have read the key. */
TEST(one_that_a_door_had_is_deleted)
{
	struct launcher_msg note = {.type = LAUNCHER_START, .number = 1};
	struct pollfd p = {.events = POLLIN};
	struct launcher_gift gift;
	int launcher;

	ground_make();
	launcher = p.fd = launcher_new("rig.00.pem");
	CHECK_EQ(launcher_send(launcher, &note), 0);
	CHECK_EQ(poll(&p, 1, 60000), 1);
	CHECK_EQ(launcher_receive(launcher, &note, &gift), 1);
	CHECK_EQ(note.type, LAUNCHER_STARTED);
	CHECK(gift.link >= 0);
	launcher_gift_done(&gift);
	launcher_end(launcher);
	CHECK(count_files(used) == 0 && count_files(spares) == 0);
	remove_temporary(top);
}

TEST(without_one_nothing_is_touched)
{
	ground_make();
	launcher_end(launcher_new(NULL));
	CHECK(count_files(used) == 1 && count_files(spares) == 0);
	remove_temporary(top);
}

/* A door that leaves a process behind which lives on in a session of its own, holds the pipe open,
 * and says when it is there. */
static void script_make(char *path, size_t size, const char *fifo)
{
	char text[256];
	int n = snprintf(text, sizeof(text),
			 "#!/bin/sh\nsetsid sh -c 'echo up; exec sleep 1000' >%s &\n", fifo);
	int fd;

	snprintf(path, size, "%s/leaves", top);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0700);
	CHECK(fd >= 0);
	CHECK_EQ(fd_write_full(fd, text, (size_t)n), 0);
	close(fd);
}

TEST(what_a_door_left_running_ends_with_the_box)
{
	struct launcher_msg note = {.type = LAUNCHER_START, .number = 1};
	char path[96], fifo[96], word[4];
	struct launcher_gift gift;
	struct pollfd p = {.events = POLLIN};
	int launcher, held;

	ground_make();
	snprintf(fifo, sizeof(fifo), "%s/held", top);
	CHECK_EQ(mkfifo(fifo, 0600), 0);
	script_make(path, sizeof(path), fifo);
	door_path = path;
	launcher = launcher_new(NULL);
	held = p.fd = open(fifo, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	CHECK(held >= 0);
	CHECK_EQ(launcher_send(launcher, &note), 0);
	CHECK_EQ(poll(&p, 1, 60000), 1);
	CHECK_EQ(read(held, word, 3), 3);
	p.fd = launcher;
	CHECK_EQ(poll(&p, 1, 60000), 1);
	CHECK_EQ(launcher_receive(launcher, &note, &gift), 1);
	launcher_gift_done(&gift);
	launcher_end(launcher);
	/* Nobody holds the pipe any more. */
	CHECK_EQ(read(held, word, 1), 0);
	close(held);
	remove_temporary(top);
}

TAP_MAIN
