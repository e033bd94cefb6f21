/* The JSON of what changed, and of what a merge does with it; see view.h. */
#include "base/str.h"
#include "core/view.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char *change_type(unsigned mode)
{
	return S_ISREG(mode)	? "file"
	       : S_ISDIR(mode)	? "directory"
	       : S_ISLNK(mode)	? "link"
	       : S_ISFIFO(mode) ? "fifo"
	       : S_ISSOCK(mode) ? "socket"
	       : S_ISCHR(mode)	? "character device"
	       : S_ISBLK(mode)	? "block device"
				: NULL;
}

static void put_change_side(struct json *j, const char *key, const struct cove_change_side *s)
{
	char mode[8];

	json_key(j, key);
	if (s->mode == 0) {
		json_nil(j);
		return;
	}
	snprintf(mode, sizeof(mode), "%04o", s->mode & 07777);
	json_object_begin(j);
	json_kv_str(j, "type", change_type(s->mode));
	json_kv_str(j, "mode", mode);
	json_kv_u64(j, "uid", s->uid);
	json_kv_u64(j, "gid", s->gid);
	json_kv_u64(j, "size", s->size);
	json_object_end(j);
}

/* A path is bytes; where they are no text they are given whole besides. */
void view_change_json(struct json *j, const struct cove_change *ch)
{
	static const char *const kinds[] = {"added", "changed", "removed"};
	static const char *const words[] = {"type", "mode", "owner", "content", "attributes"};
	size_t len = strlen(ch->path);

	json_object_begin(j);
	json_kv_str(j, "kind", kinds[ch->kind]);
	json_kv_str(j, "path", ch->path);
	if (!str_is_utf8(ch->path, len)) {
		json_key(j, "path_base64");
		json_base64(j, ch->path, len);
	}
	json_key(j, "what");
	json_array_begin(j);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (ch->what & 1u << i)
			json_str(j, words[i]);
	json_array_end(j);
	put_change_side(j, "before", &ch->before);
	put_change_side(j, "after", &ch->after);
	if (ch->deep)
		json_kv_bool(j, "deep", true);
	if (ch->text_kind == COVE_TEXT_LINES) {
		json_key(j, "text");
		json_strn(j, ch->text, ch->text_len);
	} else if (ch->text_kind != COVE_TEXT_NONE) {
		json_kv_bool(j, ch->text_kind == COVE_TEXT_BINARY ? "binary" : "large", true);
	}
	json_object_end(j);
}

void view_merge_item_json(struct json *j, const struct cove_merge_item *i)
{
	static const char *const kinds[] = {"added", "changed", "removed"};
	static const char *const states[] = {"taken", "conflict", "left_out"};
	size_t len = strlen(i->path);

	json_object_begin(j);
	json_kv_str(j, "path", i->path);
	if (!str_is_utf8(i->path, len)) {
		json_key(j, "path_base64");
		json_base64(j, i->path, len);
	}
	json_kv_str(j, "kind", kinds[i->kind]);
	json_kv_str(j, "state", states[i->state]);
	if (i->why)
		json_kv_str(j, "why", i->why);
	json_object_end(j);
}

void view_merge_result_json(struct json *j, const struct cove_merge_result *r)
{
	json_kv_u64(j, "taken", r->taken);
	json_kv_u64(j, "conflicts", r->conflicts);
	json_kv_u64(j, "left_out", r->left_out);
	json_kv_bool(j, "done", r->done);
	json_kv_bool(j, "finished", r->finished);
	json_kv_bool(j, "restarted", r->restarted);
}
