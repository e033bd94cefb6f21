/*
 * The way to the door, made in the box's own network namespace while it may still be changed:
 * routes that lead everything to the loopback, nftables rules there, and the sockets that init
 * listens on.
 *
 *	TCP to anything but the loopback	to the redirect sockets; SO_ORIGINAL_DST knows more
 *	all else that is not for the loopback	refused at once, as if nothing listened
 *
 * A process in the box has no right to change rules or routes (CAP_NET_ADMIN), and cannot take the
 * ports: they are held from before its life until after it, and are not shared.
 *
 * Without nftables there are no routes, so that everything else is unreachable, and only programs
 * that use the proxy variables get out.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define GUEST_PROXY_PORT    3128 /* on 127.0.0.1 in the box */
#define GUEST_DNS_ADDR	    "127.0.0.53"
#define GUEST_REDIRECT_PORT 61128 /* on 127.0.0.1 and ::1; above what the kernel gives to clients */

enum { GUEST_REDIRECT_FDS = 6 };

struct guest_redirect {
	/* For init: each socket, and the option that says so, in the order of init.h. */
	int fds[GUEST_REDIRECT_FDS]; /* owned; closed on exec like all others */
	const char *options[GUEST_REDIRECT_FDS];
	size_t count;
	int missing; /* 0, or the errno for which there is no redirect */
};

/* The loopback has to be up. 0, or -errno where not even the sockets can be made; nothing is left
 * open then. */
int guest_redirect_make(struct guest_redirect *ret);

/* The two halves of it, for a wall whose kernel makes its sockets in a network of the host's: rules
 * and routes from outside, 0 or the -errno for which there are none; the sockets from inside,
 * before anything else runs there. is_led: there are rules, so all of the sockets are needed. */
int guest_redirect_lead(void);
int guest_redirect_listen(bool is_led, struct guest_redirect *ret);
