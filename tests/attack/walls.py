"""What a case may see behind a wall that answers by a kernel of its own.

Every case runs behind every wall, and what must be true after it (rig.py: canaries, neighbours, the box) is judged for
all of them alike. Some cases judge by how the native wall is made, though: which file of /proc is masked, what the
host's kernel counts. Where such a case sees exactly what stands here it is not applicable, by the name of what this
wall lacks or has instead; whatever else it sees did not hold.
As of the box's user and its root the weaker one counts. With --verbose a run names rows whose case held.
"""
import re

KINDS = {
    "gvisor": {
        "OWN_PROC": "files of /proc and devices are gVisor's own: none is the host's, and nothing of the host is in "
                    "them",
        "OWN_SCHEDULER": "priorities and scores are numbers of gVisor's own: the host's processes keep theirs",
        "OWN_OBJECTS": "gVisor's own kernel makes these objects: they are the box's memory, and no one else's number",
        "WHOLE_BOX": "too much memory, or a storm of forks, ends the whole box, not one command",
        "EXEC_GROUPS": "refused forks are not known: commands have no groups of the host's",
        "HOLES": "holes in files are not seen by gVisor: a size is told, no room is taken",
        "OWN_TASKS": "the box's processes are gVisor's own: how they wait in a call is not the host's to see",
    },
}

ENDED = r"^exit (137 signal 9 cause oom|None signal None cause interrupted): "

# Case -> the kind, and what it says of it.
SEEN = {
    "gvisor": {
        "A8_mask_source_from_another_box": ("OWN_PROC", "is the kernel.{1,3}s own file|is not read-only"),
        "A8_mask_source_from_the_image": ("OWN_PROC", "is the kernel.{1,3}s own file|is not read-only"),
        "A9_masks_are_there": ("OWN_PROC", "^/proc/cmdline is the kernel's own file$"),
        "A9_nodev_nosuid_mounts": ("OWN_PROC", "^/ takes devices$"),
        "A9_read_only_parts_are_read_only": ("OWN_PROC", "^/proc/sys is not read-only$"),
        "A21_dev_has_only_harmless_nodes": ("OWN_PROC", "^/dev/(fuse is 10:229|tun is 10:200)$"),
        "B14_every_sysctl": ("OWN_PROC", r"^\d+ files, /proc/sys/"),
        "B14_own_oom_score_below_zero": ("OWN_SCHEDULER", r"^write -1000 succeeded \(5\)$"),
        "B14_sysrq_trigger": ("OWN_PROC", "^/proc/sysrq-trigger opens for writing$"),
        "B15_command_line": ("OWN_PROC", "^/proc/cmdline tells 40 bytes"),
        "C1_exponential_fork_bomb": ("WHOLE_BOX", ENDED),
        "C1_fork_bomb": ("WHOLE_BOX", ENDED),
        "C1_neighbour_of_a_fork_bomb": ("WHOLE_BOX", r"^the box itself does not answer: (oom$|init died \()"),
        "C1_vfork_storm": ("WHOLE_BOX", ENDED),
        "C1_pids_are_told": ("EXEC_GROUPS", "^cause (None|exit), exit code"),
        "C2_out_of_memory_is_told": ("WHOLE_BOX", "^sh: .* is stopped; start it first"),
        "C2_neighbour_of_a_memory_bomb": ("WHOLE_BOX", "^the box itself does not answer: oom$"),
        "C3_sparse_file": ("HOLES", r"^a hole of 1 TiB takes 1099511627776 bytes$"),
        "C4_inotify": ("OWN_OBJECTS", "^5000$"),
        "C4_terminals": ("OWN_OBJECTS", "^600: "),
        "C5_negative_nice": ("OWN_SCHEDULER", r"^setpriority -20 succeeded \(0\)$"),
    },
}


def excuse(wall, name, text):
    """Why what a case saw is not for it to judge behind this wall; None: it did not hold."""
    kind, seen = SEEN.get(wall, {}).get(name, (None, ""))
    text = text.removeprefix("as root inside: ")
    return f"{kind}: {KINDS[wall][kind]}" if kind and re.search(seen, text) else None


def stale(wall, records):
    """Cases that stand here and held."""
    return sorted(r["name"] for r in records if r["status"] == "held" and r["name"] in SEEN.get(wall, {}))
