/* Maximums of the server (src/api, src/server); the others are in limits.h. */
#pragma once

/* JSON of requests. */
#define API_JSON_VALUES_MAX (1u << 15)	/* of one text: each costs many times its own bytes */
#define API_JSON_HERE_MAX   (16u << 10) /* bytes beyond which a thread reads it */

/* What is in memory of requests that are under way: bodies, stdin, output, answers (account.h). */
#define API_BODY_SMALL_MAX  (16u << 10)	 /* bytes of one that does not count */
#define API_BODIES_KEY_MAX  (64u << 20)	 /* of one key's */
#define API_BODIES_KEYS_MAX (256u << 20) /* of all keys'; of the operator's as many more */
#define API_BODIES_LEAST    (4u << 20)	 /* that a key gets even if all have so much */
