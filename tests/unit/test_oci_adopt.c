/*
 * Images of blobs: layers are unpacked once and shared, what lies is refused and leaves nothing,
 * and the config is read as other tools write it.
 */
#include "oci/adopt.h"

#include "base/sha.h"
#include "base/str.h"
#include "oci/config.h"
#include "store/blobs.h"
#include "store/image.h"
#include "store/layer.h"
#include "store_home.h"
#include "tar_make.h"

#include <sys/stat.h>

static struct state s;
static struct ids ids;
static struct err why;

static void begin(void)
{
	home_open(&s);
	CHECK_EQ(ids_detect(&ids, NULL, 0, &why), 0);
}

#define ADOPT_TEST(name) TEST_IN(name, (void), begin(); body(); state_close(&s);)

struct made {
	char diff[65], digest[65];
	uint64_t size;
};

/* A layer of two files, gzipped where there is a gzip. */
static struct made make_layer(const char *name, const char *text, bool packed)
{
	struct tar_maker m;
	struct made l;
	char path[100], line[500];
	autofree char *bytes = NULL;
	size_t n;

	maker_init(&m);
	maker_dir(&m, "usr/");
	maker_file(&m, name, text);
	maker_file(&m, "usr/.wh.gone", "");
	maker_end(&m);
	sha256_hex(buf_data(&m.out), buf_len(&m.out), l.diff);
	snprintf(path, sizeof(path), "%s/layer.tar", home_path);
	{
		int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

		CHECK(fd >= 0 && fd_write_full(fd, buf_data(&m.out), buf_len(&m.out)) == 0);
		close(fd);
	}
	if (packed) {
		snprintf(line, sizeof(line), "gzip -nc %s >%s.gz && mv %s.gz %s", path, path, path,
			 path);
		CHECK_EQ(system(line), 0);
	}
	CHECK_EQ(fd_read_file(AT_FDCWD, path, 1 << 20, &bytes, &n), 0);
	CHECK_EQ(blobs_put(&s, NULL, bytes, n, l.digest, &why), 0);
	l.size = n;
	maker_done(&m);
	return l;
}

/* Writes config and manifest; the manifest's digest. */
static void make_image(const struct made *layers, size_t count, const char *run, char ret[65])
{
	struct buf config, manifest;
	char digest[65];

	buf_init(&config, 1 << 20);
	buf_init(&manifest, 1 << 20);
	buf_printf(&config,
		   "{\"os\":\"linux\",\"architecture\":\"amd64\",\"config\":%s,\"rootfs\":{"
		   "\"type\":\"layers\",\"diff_ids\":[",
		   run);
	for (size_t i = 0; i < count; i++)
		buf_printf(&config, "%s\"sha256:%s\"", i ? "," : "", layers[i].diff);
	buf_append_str(&config, "]},\"history\":[{\"created\":\"2024-02-03T04:05:06.5+01:00\","
				"\"created_by\":\"RUN x\"}]}");
	CHECK_EQ(blobs_put(&s, NULL, buf_data(&config), buf_len(&config), digest, &why), 0);
	buf_printf(&manifest,
		   "{\"schemaVersion\":2,\"config\":{\"mediaType\":\"" OCI_TYPE_CONFIG
		   "\",\"digest\":\"sha256:%s\",\"size\":%zu},\"layers\":[",
		   digest, buf_len(&config));
	for (size_t i = 0; i < count; i++)
		buf_printf(&manifest,
			   "%s{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar+gzip\","
			   "\"digest\":\"sha256:%s\",\"size\":%llu}",
			   i ? "," : "", layers[i].digest, (unsigned long long)layers[i].size);
	buf_append_str(&manifest, "]}");
	CHECK_EQ(blobs_put(&s, NULL, buf_data(&manifest), buf_len(&manifest), ret, &why), 0);
	buf_done(&config);
	buf_done(&manifest);
}

static int adopt(const char *digest, const char *name)
{
	struct oci_ctx c = {.state = &s, .ids = &ids};

	why = (struct err){0};
	return oci_adopt(&c, digest, name, &why);
}

ADOPT_TEST(layers_are_unpacked_once_and_shared)
{
	struct made l[4];
	struct image im;
	char digest[65], root[640], path[800];
	struct stat st;

	l[0] = make_layer("usr/a", "one", true);
	l[1] = make_layer("usr/b", "two", false);
	l[2] = make_layer("usr/c", "three", true);
	l[3] = l[0];
	make_image(l, 4,
		   "{\"User\":\"1000\",\"Env\":[\"A=b\",\"=x\",\"y\"],\"Cmd\":[\"sh\"],"
		   "\"WorkingDir\":\"/work\",\"Labels\":{\"k\":\"v\"},\"Entrypoint\":null,"
		   "\"ExposedPorts\":{\"80/tcp\":{}}}",
		   digest);
	if (adopt(digest, "app:1") < 0)
		FAIL(why.msg);
	CHECK_EQ(image_find(&s, "app:1", &im, &why), 0);
	CHECK_EQ(im.layer_count, 4);
	CHECK_STR(im.layers[0], im.layers[3]);
	if (ids.kind != IDS_SINGLE)
		CHECK_STR(im.layers[1], l[1].diff);
	CHECK_STR(im.digest, digest);
	CHECK_STR(im.config.user, "1000");
	CHECK_STR(im.config.cwd, "/work");
	CHECK_EQ(im.config.env.count, 1);
	CHECK_STR(im.config.env.at[0], "A=b");
	CHECK_STR(im.config.labels.at[0], "k=v");
	CHECK_STR(im.config.ports.at[0], "80/tcp");
	CHECK_EQ(im.config.entrypoint.count, 0);
	CHECK_STR(im.config.cmd.at[0], "sh");
	CHECK_STR(im.platform, "linux/amd64");
	CHECK_EQ(im.history_count, 1);
	CHECK_EQ(im.history[0].created_ms, 1706929506500ull);
	CHECK_EQ(im.bytes, 3 + 3 + 5);
	CHECK_EQ(layer_root(&s, im.layers[2], root, sizeof(root)), 0);
	snprintf(path, sizeof(path), "%s/usr/gone", root);
	CHECK(lstat(path, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == 0);
	image_done(&im);
	/* A second image of the same layers makes none. */
	make_image(l, 2, "null", digest);
	CHECK_EQ(adopt(digest, "app:2"), 0);
	CHECK_EQ(count_names(s.layers_fd), 3);
}

ADOPT_TEST(what_lies_is_refused_and_leaves_nothing)
{
	struct made l[2];
	char digest[65];
	struct image im;

	l[0] = make_layer("usr/a", "one", true);
	l[1] = make_layer("usr/b", "two", true);
	memset(l[1].diff, '0', 10);
	make_image(l, 2, "{}", digest);
	CHECK_EQ(adopt(digest, "app"), -EBADMSG);
	CHECK_EQ(why.kind, ERR_INVALID);
	CHECK(image_find(&s, "app", &im, &why) < 0);
	CHECK_EQ(count_names(s.layers_fd), 0);
	/* A layer that is missing, and one of another size. */
	l[1] = make_layer("usr/b", "two", true);
	l[1].size++;
	make_image(l, 2, "{}", digest);
	CHECK(adopt(digest, "app") < 0);
	l[1] = make_layer("usr/b", "two", true);
	CHECK_EQ(blobs_remove(&s, l[1].digest, &why), 0);
	make_image(l, 2, "{}", digest);
	CHECK(adopt(digest, "app") < 0);
	CHECK_EQ(why.kind, ERR_NOT_FOUND);
	CHECK_EQ(count_names(s.layers_fd), 0);
}

ADOPT_TEST(configs_that_are_refused)
{
	static const char *const runs[] = {"[]",
					   "{\"User\":7}",
					   "{\"WorkingDir\":\"relative\"}",
					   "{\"Env\":{}}",
					   "{\"Cmd\":\"sh -c x\"}",
					   "{\"Cmd\":[7]}",
					   "{\"Labels\":{\"a\":1}}",
					   "{\"Volumes\":[]}"};
	struct made l[1];
	char digest[65];

	l[0] = make_layer("usr/a", "one", false);
	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
		make_image(l, 1, runs[i], digest);
		CHECK_EQ(adopt(digest, "app"), -EBADMSG);
	}
	CHECK_EQ(count_names(s.layers_fd), 0);
	CHECK(adopt(l[0].digest, "app") < 0);
	CHECK(adopt("0000000000000000000000000000000000000000000000000000000000000000", "app") < 0);
	CHECK_EQ(why.kind, ERR_NOT_FOUND);
	CHECK(adopt(digest, "host") < 0);
	CHECK_EQ(why.kind, ERR_INVALID);
}

ADOPT_TEST(a_config_is_written_and_read_again)
{
	static const char diffs[1][65] = {
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"};
	struct oci_config *c = calloc(1, sizeof(*c));
	struct image *im = calloc(1, sizeof(*im));
	struct buf first, second;

	im->created_ms = 1706929506000;
	im->config.user = "agent";
	im->config.cwd = "/x";
	im->config.env = (struct image_items){.at = {"A=b\n\"c\"", "C="}, .count = 2};
	im->config.labels = (struct image_items){.at = {"k=v=w"}, .count = 1};
	im->config.volumes = (struct image_items){.at = {"/data"}, .count = 1};
	im->history[im->history_count++] = (struct image_step){.by = "imported"};
	buf_init(&first, 1 << 20);
	buf_init(&second, 1 << 20);
	CHECK_EQ(oci_config_format(im, diffs, 1, &first, &why), 0);
	if (oci_config_parse(buf_cstr(&first), buf_len(&first), c, &why) < 0)
		FAIL(why.msg);
	CHECK_EQ(c->created_ms, 1706929506000ull);
	CHECK_STR(c->config.env.at[0], "A=b\n\"c\"");
	CHECK_STR(c->config.labels.at[0], "k=v=w");
	CHECK_STR(c->diffs[0], diffs[0]);
	CHECK_EQ(oci_config_format(im, diffs, 1, &second, &why), 0);
	CHECK_STR(buf_cstr(&first), buf_cstr(&second));
	oci_config_done(c);
	free(c);
	free(im);
	buf_done(&first);
	buf_done(&second);
}
