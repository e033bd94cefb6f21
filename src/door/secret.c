/* The value of a credential; see secret.h. */
#include "door/secret.h"

#include "base/locked.h"

#include <errno.h>
#include <string.h>

int secret_init(struct secret *s, const void *p, size_t n)
{
	uint8_t *data = locked_alloc(n);

	*s = (struct secret){0};
	if (!data)
		return -ENOMEM;
	if (n)
		memcpy(data, p, n);
	s->data = data;
	s->len = n;
	return 0;
}

void secret_done(struct secret *s)
{
	locked_free(s->data);
	*s = (struct secret){0};
}
