/* CRC-32C (Castagnoli, as in iSCSI and ext4): notices every change of up to 32 bits in a row, for
 * the small files that Cove keeps. It is no guard against somebody who changes them on purpose. */
#pragma once

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(const void *p, size_t n);
