/* Maxima of snapshots and of copies of a box's files; see limits.h. */
#pragma once

#define KEEPER_HOLD_MS 60000u /* that a box is frozen for one connection */

/* Copies of trees (src/storage/copy.c). */
#define COPY_NAMES_MAX 2000000u /* of one tree; an image may have as many */
#define COPY_DEPTH_MAX 65536u
#define COPY_XATTR_MAX 65536u /* bytes of one attribute, and of all their names: the kernel's own */

/* Their records (src/store/snapshot.c). */
#define SNAPSHOT_RECORD_MAX (4u << 20) /* with the spec and the policy of the box */
#define SNAPSHOT_TAGS_MAX   64u
#define SNAPSHOT_CHAIN_MAX  16u /* of snapshots above an image; the next makes them one */
#define SNAPSHOT_KEEP_MAX   100000u
#define FORKS_MAX	    1000u /* made at once */
