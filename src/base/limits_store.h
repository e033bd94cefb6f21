/* The maxima of what is kept on disk: a part of limits.h, which includes it. */
#pragma once

/* Trees on disk (src/storage/tree.c). */
#define TREE_PASSES_MAX (1u << 20) /* over a tree's root while removing; calling again goes on */
#define TREE_NAMES_MAX	(1u << 28) /* one walk visits; a box may add while it goes on */
#define TREE_DEPTH_MAX	65536u	   /* levels that can be walked */
/* One file of a packed tree, holes counted: what ext4 can hold, which box disks are made of. */
#define TREE_FILE_MAX ((16ull << 40) - 4096)

/* Stacks of layers and what differs between two (src/storage/stack.c, diff.c). */
#define STACK_LAYERS_MAX   256u
#define STACK_PATH_MAX	   4095u /* bytes of a path; what is deeper is named and not entered */
#define STACK_NAMES_MAX	   (256u << 20) /* bytes of names of open directories, held at once */
#define TEXTDIFF_BYTES_MAX (4u << 20)	/* of one text that is shown line by line */
#define TEXTDIFF_EDITS_MAX 2000u	/* lines that go or come; then it is one change */
#define DIFF_TEXT_MAX	   (16u << 20)	/* bytes of one text diff */
#define DIFF_PATHS_MAX	   4096u	/* that are asked for at once */
#define STAGE_OPS_MAX	   500000u	/* changes of one merge to a host directory */
#define STAGE_JOURNAL_MAX  (256u << 20) /* bytes of their list */
#define DIFF_ATTRS_MAX	   (64u << 10) /* bytes of names of one file's attributes, and of a value */

/* Disks in files (src/storage/loop.c, image.c). */
#define DISK_BYTES_MIN	   (1ull << 20) /* what a limit may be */
#define DISK_BYTES_MAX	   (8ull << 40)
#define DISK_INODES_MIN	   64ull
#define DISK_INODES_MAX	   (64ull << 20)
#define DISK_TEMPLATES_MAX 16u	 /* empty filesystems kept for copying, one per size */
#define DISK_SIZING_MAX	   6u	 /* rounds until an empty filesystem has the space asked for */
#define DISK_LOCK_MS	   30000 /* for another process that is mounting the same disk */
#define LOOP_TRIES_MAX	   256u	 /* free loop devices that others took first */
#define LOOP_NUMBER_MAX	   ((1u << 20) - 1)
/* What counts as full: a share of the limit, within these. */
#define DISK_ROOM_SHARE 32u
#define DISK_ROOM_MIN	(1ull << 20)
#define DISK_ROOM_MAX	(2ull << 20)

/* The pool (src/storage/pool.c). */
#define POOL_BYTES_MIN	       (256ull << 20) /* of its file */
#define POOL_MIXED_BELOW       (4ull << 30)
#define POOL_BYTES_DEFAULT_MAX (1ull << 40)
#define POOL_ROOM_SHARE	       32u /* of it must be free for one more volume, within these */
#define POOL_FULL	       (8ull << 20) /* what counts as full */
#define POOL_EASE	       (2ull << 20) /* more than its limit, so that a full box can start */
#define POOL_CLEAN_MS	       200	    /* waited for space of what was removed */
#define POOL_ROOM_MIN	       (32ull << 20)
#define POOL_ROOM_MAX	       (1ull << 30)
#define POOL_VOLUMES_MAX       (1u << 20) /* that a sweep looks at */

/* What is kept on disk (src/store). */
#define STATE_NAMES_MAX	  100000u    /* boxes, images or workspaces in one state directory */
#define RECORD_FILE_MAX	  4096u	     /* a layer's own file */
#define IMAGE_RECORD_MAX  (1u << 20) /* an image's record */
#define IMAGE_LAYERS_MAX  128u
#define IMAGE_ITEMS_MAX	  256u	       /* of one list of an image's: variables, labels, steps */
#define LAYER_PINS_MAX	  (1u << 20)   /* bytes of which layers one build holds */
#define REFS_MAX	  (64u << 20)  /* references to layers */
#define AUDIT_TEXT_MAX	  2048u	       /* one text of an audit row */
#define AUDIT_SEGMENT_MAX (16u << 20)  /* bytes of one file of an audit log, and one row more */
#define AUDIT_SEGMENTS	  16u	       /* of one log; the oldest are dropped */
#define AUDIT_RATE	  (128u << 10) /* bytes of rows a box may cause per second; then it waits */
#define AUDIT_BURST	  (4u << 20)   /* of them at once, after a quiet time */
#define AUDIT_LOGS_MAX	  1000000u     /* logs that are shown or checked at once */
#define AUDIT_SWEEP_MS	  3600000u     /* from one look for logs that are too old to the next */
#define FOLDS_MAX	  64u	       /* rows whose repetitions are counted */
#define FOLD_MS		  10000u       /* how long, before the count is written */
#define EVENT_COMMAND_MAX 4096u	       /* bytes of a command in a JSON event */

/* The host's events (store/feed.h). */
#define FEED_ROW_MAX	   (16u << 10) /* one of them */
#define FEED_SEGMENT_BYTES (4u << 20)  /* of one file, and a few rows more */
#define FEED_SEGMENTS	   8u	       /* kept; the oldest are dropped */
#define FEED_SEGMENTS_SEEN 16u	       /* looked at, where a crash left more */
#define FEED_CRASH_STEP	   1000000u
#define KEY_RECORD_MAX	   (64u << 10) /* bytes of the record of an API key */
#define KEY_MOUNTS_MAX	   16u	       /* directories of the host that one may give to boxes */
#define KEY_LISTS_MAX	   16u	       /* of scopes that one is made with */
#define KEY_MOUNTS_BYTES   1023u       /* of their paths, with a byte between */
#define HOST_COPY_MAX	   (16u << 20) /* bytes of the host's /etc in the host image's skeleton */
