/* Lists whose items are linked by a member `next`. */
#pragma once

/* Takes an item out; head is the address of the pointer to the first, and the item is in it. */
#define list_remove(head, item)              \
	do {                                 \
		__typeof__(item) *at_;       \
		at_ = (head);                \
		while (*at_ != (item))       \
			at_ = &(*at_)->next; \
		*at_ = (item)->next;         \
	} while (0)
