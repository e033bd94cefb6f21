/* Channels, whatever carries them; see channel.h. */
#include "net/channel.h"

ssize_t channel_read(struct channel *c, void *p, size_t n)
{
	return c->ops->read(c, p, n);
}

ssize_t channel_write(struct channel *c, const void *p, size_t n)
{
	return c->ops->write(c, p, n);
}

uint8_t *channel_space(struct channel *c, size_t *ret_room)
{
	return c->ops->space ? c->ops->space(c, ret_room) : NULL;
}

void channel_put(struct channel *c, size_t n)
{
	c->ops->put(c, n);
}

int channel_finish(struct channel *c)
{
	return c->ops->finish(c);
}

void channel_want(struct channel *c, unsigned what)
{
	c->wanted = what;
	c->ops->want(c, what);
}

void channel_free(struct channel *c, bool abort)
{
	if (c)
		c->ops->free(c, abort);
}
