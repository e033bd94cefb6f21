/* CRC-32C, a byte at a time from its two halves: tables of 128 bytes, and some hundred megabytes a
 * second. */
#include "base/crc.h"

uint32_t crc32c(const void *p, size_t n)
{
	static const uint32_t low[16] = {
		0x00000000, 0xf26b8303, 0xe13b70f7, 0x1350f3f4, 0xc79a971f, 0x35f1141c,
		0x26a1e7e8, 0xd4ca64eb, 0x8ad958cf, 0x78b2dbcc, 0x6be22838, 0x9989ab3b,
		0x4d43cfd0, 0xbf284cd3, 0xac78bf27, 0x5e133c24,
	};
	static const uint32_t high[16] = {
		0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
		0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
		0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
	};
	const uint8_t *at = p;
	uint32_t crc = UINT32_MAX;

	for (; n > 0; n--, at++) {
		crc ^= *at;
		crc = crc >> 8 ^ low[crc & 15] ^ high[crc >> 4 & 15];
	}
	return ~crc;
}
