/* Capabilities: what a process may do although its ids would not let it. Numbers are the kernel's
 * own, whose headers musl does not bring. */
#pragma once

#include <stdint.h>

enum cap {
	CAP_CHOWN = 0,
	CAP_DAC_OVERRIDE = 1,
	CAP_DAC_READ_SEARCH = 2,
	CAP_FOWNER = 3,
	CAP_FSETID = 4,
	CAP_KILL = 5,
	CAP_SETGID = 6,
	CAP_SETUID = 7,
	CAP_SETPCAP = 8,
	CAP_NET_BIND_SERVICE = 10,
	CAP_SYS_CHROOT = 18,
	CAP_SYS_PTRACE = 19,
	CAP_SYS_ADMIN = 21,
	CAP_SYS_RESOURCE = 24,
	CAP_SETFCAP = 31,
};

#define CAP_BIT(cap) (1u << (cap))

/* These are not in effect, until caps_raise. */
int caps_lower(uint32_t caps);

/* Of what it has, the process keeps these; they are in effect, and these others are inherited. None
 * is ambient. *ret_left (may be NULL) is what that comes to: root in a container may lack some. */
int caps_keep(uint32_t keep, uint32_t inherit, uint32_t *ret_left);

/* All that the process may have is in effect again, after a change of ids took it out. */
int caps_raise(void);

/* No program that it starts can gain more than these. Needs CAP_SETPCAP: -EPERM without. */
int caps_bound(uint32_t keep);

/* Being root gives a program nothing any more, for good; with no_new_privs nothing else does
 * either. One call, where caps_bound is one for each capability. Needs CAP_SETPCAP: -EPERM
 * without. */
int caps_lock(void);
