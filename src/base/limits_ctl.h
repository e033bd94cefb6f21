/* Maxima of what a box may ask for itself (cove-ctl); a part of limits.h. */
#pragma once

#define CTL_LINE_MAX	   128u	       /* bytes of one request, with its newline */
#define CTL_NAME_MAX	   32u	       /* bytes of the name that it gives a snapshot */
#define CTL_TEXT_MAX	   (16u << 10) /* bytes of one answer */
#define CTL_SNAPSHOTS	   10u	       /* kept of those that a box made itself, by default */
#define CTL_SNAPSHOTS_MAX  1000u       /* and what the default may be raised to */
#define CTL_SNAPSHOT_MS	   10000u      /* from one of them to the next */
#define INIT_CTL_CONNS_MAX 16u	       /* requests under way in a box */
#define INIT_CTL_MS	   10000u      /* for a request to come, and for its answer to be read */
#define INIT_CTL_PER_S	   20u	       /* requests a second; the others wait */
#define KEEPER_CTL_PER_S   100u	       /* that the keeper answers; more only a broken init sends */
