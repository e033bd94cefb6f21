/*
 * Which layers earlier builds made; see build.h. The catalogue keeps it (db/db.h), and the helper
 * program is asked once for all steps of a build.
 *
 * A key depends on the keys before it, so all are known before anything is made. A layer counts
 * only on the very layers that it was made on: the text beside it is their hash. So where one step
 * was made again and came out otherwise, those that stand on it are made again, too.
 */
#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/limits_build.h"
#include "base/lines.h"
#include "base/log.h"
#include "base/sha.h"
#include "base/str.h"
#include "core/build.h"
#include "core/helper.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void build_layers_hash(const struct build_words *layers, char ret[65])
{
	struct sha sha;
	uint8_t sum[SHA256_BYTES];

	sha256_init(&sha);
	for (size_t i = 0; i < layers->count; i++)
		sha_add(&sha, layers->list[i], strlen(layers->list[i]) + 1);
	sha_end(&sha, sum);
	sha256_hex(sum, sizeof(sum), ret);
}

void build_cache_know(struct build *b, const char *key, const char *layer, const char *below)
{
	for (size_t i = 0; i < b->item_count; i++) {
		struct build_item *item = &b->items[i];

		if (strcmp(item->key, key) != 0)
			continue;
		item->is_known = !*layer || layer_is_id(layer);
		str_copy(item->layer, sizeof(item->layer), layer);
		str_copy(item->below, sizeof(item->below), below);
	}
}

/* Of each that is known: key, layer, text. */
static void take_answer(struct build *b, char *text)
{
	const char *key, *value, *step = NULL, *layer = NULL;
	struct lines lines;

	lines_init(&lines, text, strlen(text));
	while (lines_next(&lines, &key, &value) > 0) {
		if (strcmp(key, "key") == 0) {
			step = value;
			layer = NULL;
		} else if (strcmp(key, "layer") == 0) {
			layer = value;
		} else if (strcmp(key, "text") == 0 && step && layer) {
			build_cache_know(b, step, layer, value);
		}
	}
}

static int ask(struct build *b, const char *verb, struct buf *args, char **ret)
{
	struct err e = {0};
	struct helper_call call = {.verb = verb, .args = buf_cstr(args)};
	int r = call.args ? helper_run(b->cove, &call, ret, &e) : -ENOMEM;

	if (r < 0)
		log_debug("%s: %s", verb, e.msg);
	return r;
}

void build_cache_find(struct build *b)
{
	autofree char *answer = NULL;
	struct buf args;
	struct json j;
	size_t count = 0;

	buf_init(&args, DOCKERFILE_STEPS_MAX * 80);
	json_init(&j, &args);
	json_object_begin(&j);
	json_key(&j, "keys");
	json_array_begin(&j);
	for (size_t i = 0; i < b->item_count; i++) {
		if (!b->items[i].key[0])
			continue;
		json_str(&j, b->items[i].key);
		count++;
	}
	json_array_end(&j);
	json_object_end(&j);
	if (count > 0 && j.error == 0 && ask(b, "cache-find", &args, &answer) == 0)
		take_answer(b, answer);
	buf_done(&args);
}

void build_cache_put(struct build *b, const struct build_item *item, const char *layer,
		     const struct build_words *below)
{
	char hash[65];
	struct buf args;
	struct json j;

	build_layers_hash(below, hash);
	build_cache_know(b, item->key, layer, hash);
	buf_init(&args, 1024);
	json_init(&j, &args);
	json_object_begin(&j);
	json_kv_str(&j, "key", item->key);
	json_kv_str(&j, "layer", layer);
	json_kv_str(&j, "text", hash);
	json_object_end(&j);
	if (j.error == 0)
		(void)ask(b, "cache-put", &args, NULL);
	buf_done(&args);
}
