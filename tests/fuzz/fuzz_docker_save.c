/*
 * manifest.json of `docker save`. Each image that is found has a manifest in blobs/ which parses,
 * and which names only files of the archive; how often it is read does not matter.
 */
#include "fuzz.h"

#include "base/fd.h"
#include "oci/bundle_docker.h"
#include "storage/tree.h"

#include <fcntl.h>
#include <stdio.h>

#define CONFIG "1111111111111111111111111111111111111111111111111111111111111111"
#define LAYER  "2222222222222222222222222222222222222222222222222222222222222222"

static void make_home(struct state *s, char path[64])
{
	struct err e = {0};

	snprintf(path, 64, "%s/cove-fuzz-docker-XXXXXX",
		 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	MUST(mkdtemp(path) != NULL);
	setenv("COVE_HOME", path, 1);
	MUST(state_open(s, NULL, true, &e) == 0);
}

static void remove_home(struct state *s, char *path)
{
	char *slash = strrchr(path, '/');

	state_close(s);
	*slash = 0;
	autoclose int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	MUST(tree_remove(fd, slash + 1, NULL) == 0);
}

static void check_found(struct state *s, const struct oci_found *f)
{
	struct oci_manifest m = {0};
	autofree char *text = NULL;
	struct err e = {0};
	size_t n;

	MUST(blobs_read(s, f->digest, OCI_MANIFEST_MAX, &text, &n, &e) == 0);
	MUST(oci_manifest_parse(text, n, NULL, &m, &e) == 0 && !m.is_index);
	MUST(strcmp(m.config.digest, CONFIG) == 0 || strcmp(m.config.digest, LAYER) == 0);
	for (size_t i = 0; i < m.count; i++)
		MUST(strcmp(m.items[i].digest, CONFIG) == 0 ||
		     strcmp(m.items[i].digest, LAYER) == 0);
	MUST(!f->name[0] || image_check_name(f->name, NULL) == 0);
	oci_manifest_done(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct oci_bundle_file files[] = {
		{.name = (char *)(uintptr_t) "config.json", .digest = CONFIG, .size = 7},
		{.name = (char *)(uintptr_t) "a/layer.tar", .digest = LAYER, .size = 9},
		{.name = (char *)(uintptr_t) "b/layer.tar",
		 .target = (char *)(uintptr_t) "a/layer.tar"},
		{.name = (char *)(uintptr_t) "loop", .target = (char *)(uintptr_t) "loop"}};
	struct state s;
	char path[64];
	struct oci_ctx c = {.state = &s};
	struct oci_bundle b = {
		.c = &c, .dir_fd = -1, .hold_fd = -1, .files = files, .file_count = 4};
	struct err e = {0};
	int r;

	make_home(&s, path);
	b.manifest = (char *)malloc(n + 1);
	MUST(b.manifest);
	if (n)
		memcpy(b.manifest, p, n);
	b.manifest[n] = 0;
	b.manifest_len = n;
	r = oci_bundle_read_docker(&b, &e);
	MUST(r == 0 || (r < 0 && e.msg[0]));
	for (size_t i = 0; i < b.found_count; i++)
		check_found(&s, &b.found[i]);
	remove_home(&s, path);
	free(b.manifest);
	free(b.found);
	free(b.made);
	return 0;
}
