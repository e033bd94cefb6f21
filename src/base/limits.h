/* Every maximum that an outsider can push against, in one place (law 8). */
#pragma once

#include "base/limits_ctl.h"   /* what a box asks for itself */
#include "base/limits_image.h" /* images: archives, blobs, registries */
#include "base/limits_store.h"

/* Names and paths. */
#define BOX_NAME_MAX	   63u /* box and workspace names, bytes without the NUL */
#define IMAGE_NAME_MAX	   255u
#define SESSION_PREFIX_MAX 46u	 /* leaves room for '-' and 16 hex digits */
#define SESSION_ID_MAX	   1024u /* a caller's own id, any bytes but NUL */
#define SHELL_NAME_MAX	   64u
#define BOX_PATH_MAX	   4096u

/* The wire (src/wire). */
#define WIRE_VERSION_MIN  1u /* see wire/hello.h */
#define WIRE_VERSION_MAX  2u
#define WIRE_DATA_MAX	  65536u       /* payload of one DATA frame */
#define WIRE_CONTROL_MAX  (1u << 20)   /* payload of any other frame: a 200 KB command fits */
#define WIRE_WINDOW	  (512u << 10) /* bytes in flight per stream before a CREDIT is needed */
#define WIRE_NET_WINDOW	  (256u << 10) /* the same for one connection through the door */
#define WIRE_SOCKET_BYTES (512u << 10) /* asked of the kernel as a socket's send buffer */
#define WIRE_OUT_MAX	  (8u << 20)   /* bytes queued on one link before it is declared stuck */

/* One pass of the reaper (src/core/reap.h). */
#define REAP_STARTS_MAX	  16u /* boxes started again, all at once */
#define REAP_REMOVALS_MAX 16u

/* Warm pools. */
#define WARM_POOLS_MAX	   64u	/* of one machine */
#define WARM_SIZE_MAX	   128u /* boxes of one of them, and */
#define WARM_TOTAL_MAX	   256u /* of all together, and of those of keys */
#define WARM_KEYS_MAX	   (WARM_TOTAL_MAX / 2)
#define WARM_KEY_POOLS_MAX 8u /* of one key, and their boxes */
#define WARM_KEY_SIZE_MAX  64u

/* A box's specification. */
#define SPEC_ENV_MAX	  256u
#define SPEC_MOUNT_MAX	  32u
#define SPEC_LABEL_MAX	  64u
#define SPEC_ARG_MAX	  4096u
#define SPEC_LAYER_MAX	  160u /* an image's, and those of snapshots above them */
#define SPEC_BYTES_MAX	  (1u << 20)
#define SPEC_ON_START_MAX 4096u /* bytes of the line that a box runs at its start */

/* Filters (src/filter): what those of one box, its keeper and its door take of the kernel's memory
 * for programs, at 16 bytes an instruction. */
#define FILTERS_BYTES_MAX (32u << 10)

/* cgroups (src/cgroup). */
#define CGROUP_MOUNTS_MAX (16u << 20) /* bytes of mountinfo: a mount is about 150 */
#define CGROUP_STEPS_MAX  (1u << 16)  /* of one removal of nested groups; the next goes on */
#define CGROUP_PROCS_MAX  (1u << 20)  /* bytes of one list of processes that is to be killed */

/* v1 counts the buffers of a socket only where the group that its maker is in had this file written
 * to, and apart from all other memory. v2 counts them as memory. */
#define CGROUP_TCP_LIMIT   "memory.kmem.tcp.limit_in_bytes"
#define CGROUP_TCP_COUNTED "-1" /* counted, and limited only by the groups above */

/* Inside a box (src/init). */
#define INIT_EXECS_MAX	  512u /* commands that run at once */
#define INIT_SHELLS_MAX	  32u
#define INIT_SHELL_QUEUE  256u	/* lines waiting for one shell */
#define INIT_LINES_MAX	  512u	/* lines of all shells that run or wait at once */
#define INIT_LATE_MAX	  512u	/* ended commands, and lines, whose children still hold a stream */
#define INIT_BRACED_MAX	  5000u /* lines of a text that bash parses as a whole: it recurses */
#define INIT_FILE_OPS_MAX 64u	/* file operations at once */
#define INIT_DEPTH_MAX	  128u	/* directory depth of a recursive file operation */
#define INIT_LINKS_MAX	  40u	/* links followed at the end of a file operation's path */
#define INIT_UNSIZED_MAX  (16u << 20)  /* read of a file that says it has no size (/proc) */
#define INIT_QUEUE_HIGH	  (1u << 20)   /* link queue beyond which output and transfers wait */
#define INIT_PASSWD_MAX	  (1u << 20)   /* bytes of /etc/passwd and /etc/group that are read */
#define INIT_ENV_MAX	  1024u	       /* variables of one request */
#define INIT_PROCS_MAX	  65536u       /* processes looked at when a tree is walked */
#define INIT_EDITS_MAX	  100u	       /* replacements of one edit, and */
#define INIT_EDITS_BYTES  (960u << 10) /* their texts: what one frame carries */
#define INIT_EDIT_FILE	  (16u << 20)  /* a file that is edited, before and after */
#define INIT_TEXT_MAX	  (16u << 20)  /* of the lines that one read gives */
#define INIT_LINE_MAX	  (64u << 10)  /* of one line, read or found */
#define INIT_COUNT_BYTES  (64u << 20)  /* read beyond those lines to count the others */
#define INIT_SNIFF_BYTES  8192u	       /* a file's first ones, which say whether it is text */
#define INIT_SEARCH_LINE  (1u << 20)   /* of one line is searched */
#define INIT_FOUND_MAX	  1000000u     /* files or lines that one search gives, */
#define INIT_FOUND_USUAL  10000u       /* where it does not say how many */
#define INIT_PATTERN_MAX  4096u	       /* of a search, bytes */
#define INIT_BRACES_MAX	  1000u	       /* patterns that one with braces stands for, and */
#define INIT_GLOB_PARTS	  8192u	       /* what is between slashes in all of them */
#define INIT_CONTEXT_MAX  100u	       /* lines shown before and after one that was found */
#define INIT_WORK_BYTES	  (256u << 20) /* address space of a process for such work */
#define INIT_WORK_MS	  600000u      /* the longest time that it may be given */
#define INIT_WATCHED_MAX  8192u	       /* directories of one watch; of the box: */
#define INIT_WATCHED_BOX  32768u
#define INIT_DRAIN_BYTES  (4u << 20) /* read after a command ended: no more than this per stream */

/* The keeper (src/keeper). */
#define KEEPER_CLIENTS_MAX     128u
#define KEEPER_EXECS_MAX       2048u /* execs remembered per box; the oldest finished goes first */
#define KEEPER_LOG_BYTES_MAX   (64u << 20)  /* kept on disk per exec, both streams together */
#define KEEPER_LOGS_BYTES_MAX  (512u << 20) /* kept on disk per box */
#define KEEPER_EVENTS_MAX      (16u << 20)  /* the box's own event log, bytes */
#define CLIENT_QUEUE_MAX       (1u << 20)   /* output waiting for one slow client */
#define KEEPER_REQUESTS_MAX    256u	    /* open requests of one client */
#define KEEPER_INIT_QUEUE      (1u << 20)   /* bytes queued for init beyond which a client waits */
#define KEEPER_JOURNAL_MAX     (8u << 20)   /* the list of commands on disk; rewritten at half */
#define KEEPER_TOKENS_MAX      65536u /* callers' tokens remembered per box; then no new one */
#define KEEPER_LOG_FDS_MAX     64u    /* log files held open; the others are reopened to append */
#define KEEPER_NOTES_MAX       4096u  /* what a box could not have, and why */
#define KEEPER_START_MS	       30000u /* for init's HELLO */
#define KEEPER_BACKSTOP_MS     30000u /* for init's EXIT after a command's own timeout */
#define KEEPER_STALL_MS	       5000u  /* a client that blocks init and reads nothing is dropped */
#define KEEPER_FLUSH_MS	       1000u  /* for last answers when the box is gone */
#define KEEPER_EXPIRE_GRACE_MS 2000u  /* SIGTERM to SIGKILL when a box's time is over */
#define KEEPER_DOOR_QUEUE      (1u << 20)  /* bytes queued for the door beyond which init waits */
#define KEEPER_KILL_MS	       60000u	   /* for the end of a box that was killed; then again */
#define KEEPER_DOOR_END_MS     5000u	   /* for the last audit rows of a door whose box ends */
#define KEEPER_DOOR_RETRY_MS   1000u	   /* from a door that could not be started to the next */
#define PROC_FILES_HOST_MAX    65536u	   /* of the host's /proc/meminfo */
#define PROC_FILES_CPUINFO_MAX (16u << 20) /* of the host's /proc/cpuinfo, and of the box's files */
#define EXEC_COMMAND_MAX       95u	   /* bytes of a command's first line that are remembered */
#define EXEC_TOKEN_MAX	       64u	   /* bytes of the token a caller gives a command */

/* The network in a box (src/init): connections to the door, and its names. */
#define INIT_CONNS_MAX	 1200u	/* accepted and not over; a little more than the door takes */
#define INIT_PORTS_MAX	 256u	/* forwarded from the host, open at once */
#define INIT_NAMES_MAX	 16384u /* names that have an address */
#define INIT_NAME_MS	 60000u /* that an address stays with a name nobody uses */
#define INIT_ASKED_MAX	 256u	/* names being asked for */
#define INIT_ASKERS_MAX	 1024u	/* questions that wait for them */
#define INIT_ASK_MS	 30000u /* for the door to know a name */
#define INIT_DNS_TCP_MAX 64u	/* connections to the resolver */
#define INIT_DNS_TCP_MS	 10000u /* for the next question on one */

/* What a box trusts (src/guest/trust.c). */
#define TRUST_BUNDLE_MAX (4u << 20)  /* of an image's certificates */
#define TRUST_EXTRA_MAX	 (64u << 10) /* of those that the host's administrator added */

/* HTTP (src/http); what a head may hold is said by who reads it (struct http_limits). */
#define HTTP_EXT_MAX	     1024u	 /* what follows the size of a chunk, and is dropped */
#define WS_PIECE_MAX	     (16u << 10) /* of a message that is reported as it comes */
#define MULTIPART_HEAD_MAX   (16u << 10) /* of one part of a form */
#define MULTIPART_FIELDS_MAX 16u

/* The door (src/door). */
#define DOOR_CONNS_MAX	  1024u	      /* at once, unless --net-conns says less */
#define DOOR_HELLO_MAX	  (16u << 10) /* a client's first TLS message */
#define DOOR_HEAD_MAX	  (64u << 10) /* the head of one HTTP message, and its trailers */
#define DOOR_HEADERS_MAX  256u
#define DOOR_INTERIM_MAX  64u	       /* answers of 1xx to one request */
#define DOOR_BUFFER_MAX	  (64u << 10)  /* held for one direction of one connection */
#define DOOR_TCP_WIDE	  (128u << 20) /* kernel memory of upstreams that the kernel may tune */
#define DOOR_TCP_NARROW	  (64u << 10)  /* asked for as each buffer of the others; takes twice it */
#define DOOR_LINK_QUEUE	  (1u << 20)   /* queued for the keeper beyond which upstreams wait */
#define DOOR_POLICY_MAX	  (1u << 20)   /* text of a policy */
#define DOOR_RULES_MAX	  4096u
#define POLICY_NODES_MAX  65536u /* values in the text of a policy */
#define POLICY_DEPTH_MAX  8u
#define POLICY_KEYS_MAX	  64u	/* of one mapping */
#define POLICY_LIST_MAX	  1024u /* hosts, ports, methods, paths or queries of one rule */
#define POLICY_GLOB_MAX	  255u	/* a pattern for paths or queries, bytes */
#define POLICY_NAME_MAX	  64u	/* a rule's name, bytes */
#define POLICY_RATE_MAX	  1000000u
#define DOOR_GRANTS_MAX	  1024u		/* of one box */
#define DOOR_ASKS_MAX	  256u		/* held for an answer */
#define DOOR_SECRET_MAX	  (64u << 10)	/* one credential */
#define DOOR_SECRETS_MAX  256u		/* names in one policy */
#define REDACT_VALUES_MAX 192u		/* looked for in one answer */
#define REDACT_HELD_MAX	  (2u << 20)	/* of an answer that is searched */
#define INFLATE_FREE_MAX  (16u << 20)	/* of a compressed answer, however little came */
#define INFLATE_RATIO_MAX 100u		/* beyond that: for each byte that came */
#define BROKER_QUEUE_MAX  4096u		/* rows and questions that wait for the broker */
#define BROKER_QUEUE_LOW  256u		/* of those beyond which the box is not listened to */
#define BROKER_COMMAND_MS 10000u	/* for a command that provides a secret */
#define DOOR_LEAVES_MAX	  256u		/* certificates made and kept */
#define DOOR_SESSIONS_MAX 32u		/* of TLS with upstreams, kept to be resumed */
#define ROOTS_BYTES_MAX	  (16u << 20)	/* of the certificates this host trusts */
#define ROOTS_FILES_MAX	  4096u		/* of them in one directory */
#define DOOR_LOOKUPS_MAX  256u		/* names being resolved */
#define DOOR_CONNECT_MS	  30000u	/* for an upstream to accept */
#define DOOR_TRY_MS	  5000u		/* for one address of several, before the next is tried */
#define DOOR_HEAD_MS	  60000u	/* for the first bytes, a hello or the head of a request */
#define DOOR_IDLE_MS	  (15u * 60000) /* a connection without a byte either way */
#define DOOR_ASK_MS	  300000u	/* for an answer, unless the rule says otherwise */
#define DOOR_END_CHECK_MS 60000u	/* at most, to the next look whether a grant has ended */
#define DOOR_START_MS	  10000u	/* for a door to say that it is there */
#define DOOR_PREMADE	  64u		/* certificate authorities made at once, for later boxes */
#define DOOR_PREMADE_MAX  4096u		/* that one call makes */
#define DNS_NAME_MAX	  253u
#define DNS_MESSAGE_MAX	  4096u

/* The helper program cove-store (src/helper, core/helper.c). */
#define HELPER_REQUEST_MAX (4u << 20)
#define HELPER_ANSWER_MAX  (64u << 20) /* one line of its answer: a listing as JSON */
#define HELPER_FDS_MAX	   16u	       /* descriptors of the caller's that it gets */

/* The catalogue (src/db). */
#define DB_CACHE_MAX	  100000u /* steps of builds that are remembered */
#define DB_CACHE_KEY_MAX  256u
#define DB_CACHE_TEXT_MAX (1u << 20)

/* What a call returns inline. */
#define RESULT_INLINE_MAX (1u << 20)
#define OUTPUT_ENDS_MAX	  (256u << 20) /* of a stream whose beginning and end are printed */
#define LIST_ENTRIES_MAX  1000000u     /* names of one directory */
#define LIST_BYTES_MAX	  (64u << 20)  /* of one directory's listing, as it came */

/* Files with a command (src/core/run_with.c). */
#define TRANSFERS_MAX 256u /* that go in; that come out */

/* Ports of a box on the host (src/core/forward.c). */
#define PORTS_MAX	  64u	     /* of a box that are forwarded, of one command line */
#define FORWARD_CONNS_MAX 240u	     /* at once; the next wait: a client has 256 requests */
#define FORWARD_QUEUE_MAX (1u << 20) /* bytes for the keeper beyond which nothing is read */

/* The command line (src/cli). */
#define TABLE_BYTES_MAX (16u << 20)  /* text of one table */
#define LINE_BYTES_MAX	(960u << 10) /* a shell line read from stdin: what one frame carries */
