/* Numbers of system calls and families that musl's headers may not have. Those from 424 on are the
 * same on every architecture. */
#pragma once

enum {
	NR_pidfd_send_signal = 424,
	NR_io_uring_setup = 425,
	NR_io_uring_enter = 426,
	NR_io_uring_register = 427,
	NR_open_tree = 428,
	NR_move_mount = 429,
	NR_fsopen = 430,
	NR_fsconfig = 431,
	NR_fsmount = 432,
	NR_fspick = 433,
	NR_pidfd_open = 434,
	NR_clone3 = 435,
	NR_pidfd_getfd = 438,
	NR_process_madvise = 440,
	NR_mount_setattr = 442,
	NR_quotactl_fd = 443,
	NR_landlock_create_ruleset = 444,
	NR_landlock_restrict_self = 446,
	NR_memfd_secret = 447,
	NR_process_mrelease = 448,
	NR_set_mempolicy_home_node = 450,
	NR_cachestat = 451,
	NR_map_shadow_stack = 453,
	NR_statmount = 457,
	NR_listmount = 458,
	NR_lsm_get_self_attr = 459,
	NR_lsm_set_self_attr = 460,
	NR_lsm_list_modules = 461,
	NR_mseal = 462,
	NR_open_tree_attr = 467,
	NR_KNOWN_END = 470, /* nothing above is a system call anybody needs yet */
};
