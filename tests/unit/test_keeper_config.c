/* The keeper's configuration, written and read. */
#include "base/fd.h"
#include "keeper/config.h"
#include "tap.h"

TEST(round_trip)
{
	struct keeper_config c =
				     {
					     .home = "/home/u/state with space",
					     .run = "/run/\n\\odd",
					     .init_path = "/usr/libexec/cove/cove-init",
					     .ctl_path = "/l/cove-ctl",
					     .save_path = "/l/cove-save",
					     .lowers = {"/layers/y/rootfs", "/layers/x/rootfs"},
					     .lower_count = 2,
					     .image_is_host = true,
					     .visit = true,
					     .secrets = {{.path = "/run/secrets/a b",
							  .data = "x\0\ny",
							  .len = 4,
							  .mode = 0440,
							  .uid = 7,
							  .gid = 8},
							 {.path = "/empty", .data = ""}},
					     .secret_count = 2,
					     .spec =
						     {
							     .name = "dev",
							     .image = "base",
							     .wall = "native",
							     .workspace = "dev",
							     .timeout_ms = 1500,
							     .one_shot = true,
							     .env = {"A=1", "B=x\ny"},
							     .env_count = 2,
							     .mounts = {{.src = "data",
									 .dst = "/data",
									 .env = "DATA",
									 .read_only = true}},
							     .mount_count = 1,
						     },
				     },
			     back;
	struct err e = {0};
	int fd = -1;

	CHECK_EQ(keeper_config_write(&c, &fd, &e), 0);
	CHECK(write(fd, "x", 1) < 0); /* sealed */
	CHECK_EQ(keeper_config_read(&back, fd, &e), 0);
	CHECK_STR(back.home, c.home);
	CHECK_STR(back.run, c.run);
	CHECK_STR(back.init_path, c.init_path);
	CHECK_STR(back.ctl_path, c.ctl_path);
	CHECK_STR(back.save_path, c.save_path);
	CHECK_EQ(back.lower_count, 2);
	CHECK_STR(back.lowers[1], c.lowers[1]);
	CHECK(back.image_is_host);
	CHECK(back.visit);
	CHECK_EQ(back.secret_count, 2);
	CHECK_STR(back.secrets[0].path, "/run/secrets/a b");
	CHECK_EQ(back.secrets[0].len, 4);
	CHECK_MEM(back.secrets[0].data, "x\0\ny", 4);
	CHECK_EQ(back.secrets[0].mode, 0440);
	CHECK_EQ(back.secrets[0].uid + back.secrets[0].gid, 15);
	CHECK_STR(back.secrets[1].path, "/empty");
	CHECK_EQ(back.secrets[1].len, 0);
	keeper_config_forget(&back);
	CHECK_EQ(back.secret_count, 0);
	CHECK_STR(back.spec.name, "dev");
	CHECK_STR(back.spec.workspace, "dev");
	CHECK(!back.spec.workspace_dir);
	CHECK(back.spec.one_shot);
	CHECK_EQ(back.spec.timeout_ms, 1500);
	CHECK_EQ(back.spec.env_count, 2);
	CHECK_STR(back.spec.env[1], "B=x\ny");
	CHECK_EQ(back.spec.mount_count, 1);
	CHECK_STR(back.spec.mounts[0].env, "DATA");
	CHECK(back.spec.mounts[0].read_only);
	keeper_config_done(&back);
	keeper_config_done(&back);
	close(fd);
}

static int read_text(const char *text)
{
	int fd = sys_memfd_create("t", 0);
	struct keeper_config c;
	struct err e = {0};
	int r;

	CHECK_EQ(fd_write_full(fd, text, strlen(text)), 0);
	r = keeper_config_read(&c, fd, &e);
	if (r == 0)
		keeper_config_done(&c);
	else
		CHECK(e.msg[0]);
	close(fd);
	return r;
}

#define GOOD "home /h\nrun /r\ninit_path /i\nlower /l\n"
#define SPEC "spec \nname a\nimage base\nwall native\ncreated_ms 1\n"

TEST(what_is_refused)
{
	CHECK_EQ(read_text(GOOD SPEC), 0);
	CHECK(read_text("") < 0);
	CHECK(read_text(GOOD) < 0);
	CHECK(read_text("home /h\n" SPEC) < 0);
	CHECK(read_text(GOOD "home /again\n" SPEC) < 0);
	CHECK(read_text(GOOD "colour blue\n" SPEC) < 0);
	CHECK(read_text(GOOD "spec \nname a\ncolour blue\n") < 0);
	CHECK(read_text("home /h\nrun") < 0);
}

TAP_MAIN
