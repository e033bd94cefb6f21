/* What a command prints; see collect.h. */
#include "base/collect.h"

#include <stdlib.h>
#include <string.h>

void collect_init(struct collect *c, size_t max)
{
	*c = (struct collect){0};
	buf_init(&c->kept[0], max);
	buf_init(&c->kept[1], max);
}

void collect_done(struct collect *c)
{
	buf_done(&c->kept[0]);
	buf_done(&c->kept[1]);
}

int collect_add(struct collect *c, unsigned stream, const void *data, size_t len)
{
	struct buf *b = &c->kept[stream];
	size_t room = b->max - buf_len(b);

	c->seen[stream] += len;
	return buf_append(b, data, len < room ? len : room);
}

bool collect_is_cut(const struct collect *c)
{
	return c->seen[0] > buf_len(&c->kept[0]) || c->seen[1] > buf_len(&c->kept[1]);
}

char *collect_copy(const struct collect *c, unsigned stream, size_t *ret_len)
{
	const struct buf *b = &c->kept[stream];
	char *text = malloc(buf_len(b) + 1);

	if (!text)
		return NULL;
	if (buf_len(b) > 0)
		memcpy(text, buf_data(b), buf_len(b));
	text[buf_len(b)] = 0;
	*ret_len = buf_len(b);
	return text;
}
