/*
 * An image's config. What was read is within its maxima, every variable has a name, and it can be
 * written: what is read of that says the same about how programs run.
 */
#include "fuzz.h"

#include "oci/config.h"

static void same(const struct image_items *a, const struct image_items *b)
{
	MUST(a->count == b->count);
	for (size_t i = 0; i < a->count; i++)
		MUST(strcmp(a->at[i], b->at[i]) == 0);
}

static void same_text(const char *a, const char *b)
{
	MUST(!a == !b && (!a || strcmp(a, b) == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static struct oci_config first, second;
	static struct image im;
	struct err e = {0};
	struct buf text;

	if (oci_config_parse((const char *)p, n, &first, &e) < 0) {
		MUST(e.kind != ERR_NONE && e.msg[0]);
		oci_config_done(&first);
		return 0;
	}
	MUST(first.diff_count <= OCI_LAYERS_MAX && first.history_count <= IMAGE_ITEMS_MAX);
	MUST(!first.config.cwd || first.config.cwd[0] == '/');
	for (size_t i = 0; i < first.config.env.count; i++)
		MUST(strchr(first.config.env.at[i], '=') > first.config.env.at[i]);
	im = (struct image){.config = first.config, .created_ms = first.created_ms % (1ull << 43)};
	buf_init(&text, 64 << 20);
	MUST(oci_config_format(&im, (const char(*)[65])first.diffs, first.diff_count, &text, &e) ==
	     0);
	MUST(oci_config_parse((const char *)buf_data(&text), buf_len(&text), &second, &e) == 0);
	MUST(first.diff_count == second.diff_count);
	MUST(memcmp(first.diffs, second.diffs, sizeof(first.diffs)) == 0);
	same_text(first.config.user, second.config.user);
	same_text(first.config.cwd, second.config.cwd);
	same_text(first.config.stop_signal, second.config.stop_signal);
	same(&first.config.env, &second.config.env);
	same(&first.config.cmd, &second.config.cmd);
	same(&first.config.entrypoint, &second.config.entrypoint);
	same(&first.config.shell, &second.config.shell);
	same(&first.config.ports, &second.config.ports);
	same(&first.config.volumes, &second.config.volumes);
	buf_done(&text);
	oci_config_done(&first);
	oci_config_done(&second);
	return 0;
}
