/* Every maximum that an outsider can push against, in one place (law 8). */
#pragma once

/* Names and paths. */
#define BOX_NAME_MAX	   63u	      /* box, workspace and image names, bytes without the NUL */
#define SESSION_PREFIX_MAX 46u	      /* leaves room for '-' and 16 hex digits */
#define SESSION_ID_MAX	   1024u      /* a caller's own id, any bytes but NUL */
#define SHELL_NAME_MAX	   32u
#define BOX_PATH_MAX	   4096u

/* The wire (src/wire). */
#define WIRE_VERSION	 1u
#define WIRE_DATA_MAX	 65536u	      /* payload of one DATA frame */
#define WIRE_CONTROL_MAX (1u << 20)   /* payload of any other frame: a 200 KB command fits */
#define WIRE_WINDOW	 (512u << 10) /* bytes in flight per stream before a CREDIT is needed */
#define WIRE_OUT_MAX	 (8u << 20)   /* bytes queued on one link before it is declared stuck */

/* A box's specification. */
#define SPEC_ENV_MAX   256u
#define SPEC_MOUNT_MAX 32u
#define SPEC_LABEL_MAX 64u
#define SPEC_ARG_MAX   4096u
#define SPEC_BYTES_MAX (1u << 20)

/* Inside a box (src/init). */
#define INIT_EXECS_MAX	  512u	      /* commands alive at once, lingering output included */
#define INIT_SHELLS_MAX	  32u
#define INIT_SHELL_QUEUE  256u	      /* lines waiting for one shell */
#define INIT_FILE_OPS_MAX 64u	      /* file operations at once */
#define INIT_DEPTH_MAX	  128u	      /* directory depth of a recursive file operation */
#define INIT_LINKS_MAX	  40u	      /* links followed at the end of a file operation's path */
#define INIT_UNSIZED_MAX  (16u << 20) /* read of a file that says it has no size (/proc) */
#define INIT_FILE_QUEUE	  (1u << 20)  /* link queue beyond which transfers wait */
#define INIT_QUEUE_HIGH	  (1u << 20)  /* link queue beyond which output streams wait */
#define INIT_PASSWD_MAX	  (1u << 20)  /* bytes of /etc/passwd and /etc/group that are read */
#define INIT_ENV_MAX	  1024u	      /* variables of one request */
#define INIT_PROCS_MAX	  65536u      /* processes looked at when a tree is walked */
#define INIT_NOTES_MAX	  4096u	      /* what HELLO tells about things missing */
#define INIT_DRAIN_BYTES  (4u << 20)  /* read after a command ended: no more than this per stream */

/* The keeper (src/keeper). */
#define KEEPER_CLIENTS_MAX   128u
#define KEEPER_EXECS_MAX     1024u    /* execs remembered per box; the oldest finished goes first */
#define KEEPER_LOG_BYTES_MAX (64u << 20)  /* kept on disk per exec, both streams together */
#define KEEPER_LOGS_BYTES_MAX (512u << 20) /* kept on disk per box */
#define KEEPER_EVENTS_MAX    (16u << 20)  /* the box's own event log, bytes */
#define CLIENT_QUEUE_MAX     (1u << 20)	  /* output waiting for one slow client */

/* What a call returns inline. */
#define RESULT_INLINE_MAX (1u << 20)
