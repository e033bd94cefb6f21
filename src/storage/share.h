/*
 * Whose a host directory's files are in a box, and the box's files on the host. Root only: an
 * ordinary user's boxes all have one map (ids.h).
 *
 * A box's range is another one at every start, so nothing may be stored with its ids. In a host
 * directory the box's user is the directory's owner, and every other box id is stored in one range
 * that is reserved for this, the same for all boxes: whatever an earlier box wrote there belongs to
 * the same box id in every later one. No box ever runs with ids of that range.
 *
 * Files of other owners stay unmapped: a box sees them with id 65534, can use what everybody
 * can, and its root has no rights over them. Groups other than the directory's are kept as they
 * are, as ids that no process of a box has: without that the kernel would let no one write to such
 * a file, not even its owner.
 */
#pragma once

#include "storage/ids.h"

#include <stddef.h>
#include <stdint.h>

/* The reserved range, in one piece: the last 65,536 ids below 2^31. */
enum { SHARE_FIRST = 0x7fff0000 };
enum { SHARE_MAP_TEXT = 512 };

enum share_kind { SHARE_UIDS, SHARE_GIDS };

/* The lines of uid_map or gid_map for a mount of a directory with that owner (or group): stored id,
 * shown id, count. Written whole: it always fits. */
void share_map_format(enum share_kind kind, uint32_t base, uint32_t owner,
		      char ret[SHARE_MAP_TEXT]);

/* Does the host id belong to a box, now or once: the ranges of boxes, and the reserved one. The one
 * between them (0x7ffe0000) is systemd's foreign range and unused here. */
bool share_is_box_id(uint32_t id);
