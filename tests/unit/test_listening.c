/* Lines of the kernel's tables of sockets, as the box may show them. */
#include "init/listening.h"
#include "tap.h"

#include <string.h>

#define REST " 00:00000000 00000000  1000        0 4711 1 0000000000000000 100 0 0 10 0"

TEST(sockets_that_listen)
{
	struct listening s;

	CHECK(init_listening_parse("   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000" REST,
				   &s));
	CHECK_STR(s.address, "127.0.0.1");
	CHECK_EQ(s.port, 8000);
	CHECK_EQ(s.inode, 4711);
	CHECK(init_listening_parse("  12: 00000000000000000000000001000000:0050 "
				   "00000000000000000000000000000000:0000 0A "
				   "00000000:00000000" REST,
				   &s));
	CHECK_STR(s.address, "::1");
	CHECK_EQ(s.port, 80);
	CHECK(init_listening_parse("   0: 00000000:0001 00000000:0000 0A 00000000:00000000" REST,
				   &s));
	CHECK_STR(s.address, "0.0.0.0");
}

TEST(everything_else_is_none)
{
	static const char *const lines[] = {
		"",
		"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt",
		"   0: 0100007F:1F40 0100007F:9999 01 00000000:00000000" REST,
		"   0: 0100007F:0000 00000000:0000 0A 00000000:00000000" REST,
		"   0: 0100007:1F40 00000000:0000 0A 00000000:00000000" REST,
		"   0: 0100007F0100007F:1F40 00000000:0000 0A 00000000:00000000" REST,
		"   0: 0100007F:1F40 00000000:0000 0A",
		"   0: ZZZZZZZZ:1F40 00000000:0000 0A 00000000:00000000" REST,
		"\xff\xfe\x01",
	};
	struct listening s;

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		CHECK(!init_listening_parse(lines[i], &s));
}
