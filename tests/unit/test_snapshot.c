/* Records of snapshots: names, tags, and which layers they keep. */
#include "store/snapshot.h"

#include "base/str.h"
#include "store/layer.h"
#include "store/refs.h"
#include "store_home.h"

#include <sys/stat.h>

static struct state s;
static struct ids ids;
static struct err why;

static void begin(void)
{
	home_open(&s);
	CHECK_EQ(ids_detect(&ids, NULL, 0, &why), 0);
}

#define SNAPSHOT_TEST(name) TEST_IN(name, (void), begin(); body(); state_close(&s);)

static void make_layer(char ret_id[LAYER_ID_SIZE])
{
	struct layer_new l = LAYER_NEW_NONE;
	int lock;

	layer_random_id(ret_id);
	CHECK_EQ(layers_new(&s, &l, &why), 0);
	CHECK_EQ(mkdirat(l.fd, "rootfs", 0755), 0);
	CHECK_EQ(layers_lock(&s, &lock, &why), 0);
	CHECK_EQ(layers_place(&s, &ids, &l, ret_id, &(struct layer_meta){.kind = LAYER_SNAPSHOT},
			      &why),
		 0);
	close(lock);
}

static bool has_layer(const char *id)
{
	return faccessat(s.layers_fd, id, F_OK, 0) == 0;
}

static int put_named(const char *name, const char *layer, uint64_t created_ms)
{
	char id[LAYER_ID_SIZE];
	struct snapshot sn = {.id = id,
			      .box = "dev",
			      .spec = "name dev\n",
			      .storage = "plain",
			      .layers = {layer},
			      .layer_count = 1,
			      .created_ms = created_ms};

	layer_random_id(id);
	str_copy(sn.name, sizeof(sn.name), name);
	why = (struct err){0};
	return snapshot_write(&s, &sn, true, &why);
}

SNAPSHOT_TEST(written_found_and_listed)
{
	char layer[LAYER_ID_SIZE];
	struct snapshot sn, *list;
	size_t count;

	CHECK_EQ(snapshot_list(&s, &list, &count, &why), 0);
	CHECK_EQ(count, 0);
	free(list);
	CHECK_EQ(snapshot_find(&s, "one", &sn, &why), -ENOENT);
	CHECK_EQ(why.kind, ERR_NOT_FOUND);
	make_layer(layer);
	CHECK_EQ(put_named("two", layer, 5), 0);
	CHECK_EQ(put_named("one", layer, 9), 0);
	CHECK_EQ(put_named("one", layer, 9), -EEXIST);
	CHECK_EQ(put_named("../x", layer, 9), -EINVAL);
	CHECK_EQ(snapshot_find(&s, "one", &sn, &why), 0);
	CHECK(strcmp(sn.box, "dev") == 0 && strcmp(sn.spec, "name dev\n") == 0);
	CHECK_STR(sn.layers[0], layer);
	snapshot_done(&sn);
	CHECK_EQ(snapshot_list(&s, &list, &count, &why), 0);
	CHECK_EQ(count, 2);
	CHECK_STR(list[0].name, "two");
	snapshot_list_free(list, count);
}

SNAPSHOT_TEST(a_tag_is_of_one_and_moves)
{
	char layer[LAYER_ID_SIZE];
	struct snapshot sn;

	make_layer(layer);
	CHECK_EQ(put_named("one", layer, 1), 0);
	CHECK_EQ(put_named("two", layer, 2), 0);
	CHECK_EQ(snapshot_tag(&s, "one", "good", &why), 0);
	CHECK_EQ(snapshot_find(&s, "good", &sn, &why), 0);
	CHECK_STR(sn.name, "one");
	snapshot_done(&sn);
	CHECK_EQ(snapshot_tag(&s, "two", "good", &why), 0);
	CHECK_EQ(snapshot_find(&s, "good", &sn, &why), 0);
	CHECK(strcmp(sn.name, "two") == 0 && sn.tag_count == 1);
	snapshot_done(&sn);
	CHECK_EQ(snapshot_tag(&s, "two", "one", &why), -EEXIST);
	CHECK_EQ(put_named("good", layer, 3), -EEXIST);
	CHECK_EQ(snapshot_tag(&s, "good", "best", &why), 0);
	CHECK_EQ(snapshot_remove(&s, &ids, "best", &why), -ENOENT);
}

SNAPSHOT_TEST(its_layers_stay_as_long_as_it_does)
{
	char shared[LAYER_ID_SIZE], own[LAYER_ID_SIZE];
	struct refs refs;
	int lock;

	make_layer(shared);
	make_layer(own);
	CHECK_EQ(put_named("one", shared, 1), 0);
	CHECK_EQ(put_named("two", shared, 1), 0);
	CHECK_EQ(put_named("three", own, 1), 0);
	CHECK_EQ(layers_lock(&s, &lock, &why), 0);
	CHECK_EQ(refs_collect(&s, &refs, &why), 0);
	CHECK_EQ(refs_count(&refs, shared), 2);
	refs_done(&refs);
	close(lock);
	CHECK_EQ(snapshot_remove(&s, &ids, "one", &why), 0);
	CHECK(has_layer(shared));
	CHECK_EQ(snapshot_remove(&s, &ids, "two", &why), 0);
	CHECK(!has_layer(shared) && has_layer(own));
	CHECK_EQ(snapshot_remove(&s, &ids, "two", &why), -ENOENT);
}

/* One that cannot be read keeps every layer from being taken for unused, and can be removed. */
SNAPSHOT_TEST(a_damaged_one)
{
	char layer[LAYER_ID_SIZE], other[LAYER_ID_SIZE];
	struct snapshot sn;
	int fd;

	make_layer(layer);
	make_layer(other);
	CHECK_EQ(put_named("one", layer, 1), 0);
	CHECK_EQ(put_named("two", other, 1), 0);
	fd = openat(s.home_fd, "snapshots/one", O_WRONLY | O_CLOEXEC);
	CHECK_EQ(pwrite(fd, "x", 1, 40), 1);
	close(fd);
	CHECK_EQ(snapshot_find(&s, "one", &sn, &why), -EBADMSG);
	CHECK_EQ(why.kind, ERR_DAMAGED);
	CHECK_EQ(snapshot_remove(&s, &ids, "two", &why), 0);
	CHECK(has_layer(other) && has_layer(layer));
	CHECK_EQ(snapshot_remove(&s, &ids, "one", &why), 0);
	CHECK_EQ(snapshot_find(&s, "one", &sn, &why), -ENOENT);
}

TAP_MAIN
