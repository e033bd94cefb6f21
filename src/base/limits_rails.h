/* Maximums of durable runs (src/rails); the others are in limits.h. */
#pragma once

/* What is appended (rails/ledger.h). */
#define LEDGER_LOG_MIN	   (2u << 20)	/* bytes of the first log; then they double, */
#define LEDGER_LOG_MAX	   (32u << 20)	/* up to this; there are two, and one for later */
#define LEDGER_BATCH_MAX   (1u << 20)	/* bytes that are made durable at once */
#define LEDGER_JOURNAL_MAX (256u << 20) /* bytes of one journal */
#define LEDGER_OPEN_MAX	   256u		/* journals that are held open */
#define LEDGER_GROW_MIN	   (4u << 10)	/* room that is reserved for a journal's next rows */
#define LEDGER_GROW_MAX	   (1u << 20)
#define LEDGER_NAMES_MAX   1000000u /* journals that are listed */

/* Runs (rails/run.h). */
#define RAILS_INLINE_MAX  (64u << 10)  /* bytes of a result in its row; larger ones are blobs */
#define RAILS_PAYLOAD_MAX (1ull << 30) /* bytes of any result */
#define RUN_ROW_MAX	  (192u << 10) /* one row: what is in line, and its texts */
#define RUN_NAME_MAX	  128u /* bytes of a run's, step's, wait's, signal's or value's name */
#define RUN_KIND_MAX	  16u
#define RUN_POSITION_MAX  64u	      /* "7", "7.2": where in the program a step is */
#define RUN_TEXT_MAX	  8192u	      /* a question, a reason, an error, a line of the log */
#define RUN_WHO_MAX	  128u	      /* who holds, answers, cancels */
#define RUN_ENTRY_MAX	  (32u << 10) /* the command or call that starts the run again */
#define RUN_DEPENDS_MAX	  64u	      /* hashes that a step's key is made of */
#define RUN_STEPS_MAX	  100000u     /* steps and waits of one run */
#define RUN_ATTEMPTS_MAX  1000u	      /* of one step */
#define RUN_SIGNALS_MAX	  10000u      /* sent to one run */
#define RUN_LEASE_MS_MAX  (24u * 3600000u)
#define RUN_CACHED_MAX	  512u	 /* runs whose state a process keeps */
#define RUN_VALUES_MAX	  10000u /* names of one scope */
