/*
 * The door's front, and whatever frames its keeper's link brings: it stands, asks for no name that
 * its policy does not allow, counts its connections right, and lets everything go at the end. The
 * policy allows names in .test only, which lead to a port of loopback that nobody listens on.
 */
#include "../unit/door_rig.h"
#include "fuzz.h"

#include "base/limits.h"

static const char policy[] = "version: 1\n"
			     "rules:\n"
			     "  - {allow: [a.test, b.test], ports: [1, 443], private: true}\n"
			     "  - {ask: c.test, ports: any, private: true}\n"
			     "  - {allow: d.test, ports: any, private: true, methods: [GET]}\n";

/* Ids are brought together, so that frames meet. */
static bool feed(const struct wire_frame *f)
{
	struct wire_frame near = *f;

	near.id = f->id & 0x80000000u ? 0x80000000u | (f->id & 3) : WIRE_NET_BIT | (f->id & 7);
	return door_frame(&rig.door, &near);
}

static void check_rows(void)
{
	unsigned names = rig_rows("name", "allow"), connects = rig_rows("connect", "allow");

	MUST(rig.lookups <= names + connects);
	for (unsigned i = 0; i < rig.row_count; i++)
		MUST(strcmp(rig.rows[i].verdict, "allow") != 0 || !rig.rows[i].host[0] ||
		     strstr(rig.rows[i].host, ".test"));
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct wire_decoder d;
	struct wire_frame f;
	unsigned count = 0, left = 64;
	size_t room;
	uint8_t *to;

	memset(&rig, 0, sizeof(rig));
	rig.ids_again = true;
	rig_open(policy);
	wire_decoder_init(&d);
	while (n > 0 && (to = wire_decoder_space(&d, &room))) {
		room = room < n ? room : n;
		memcpy(to, p, room);
		wire_decoder_fill(&d, room);
		p += room;
		n -= room;
		while (left > 0 && wire_decoder_next(&d, &f) > 0 && feed(&f)) {
			left--;
			if (f.len % 3 == 0)
				rig_step();
		}
	}
	rig_step();
	for (struct door_conn *c = rig.door.conns; c; c = c->next)
		count++;
	MUST(count == rig.door.conn_count);
	check_rows();
	wire_decoder_done(&d);
	rig_close();
	MUST(rig.door.conn_count == 0 && rig.webs == 0);
	return 0;
}
