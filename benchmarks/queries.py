"""What the benchmark asks: patterns of every kind, with the flags that all the tools understand."""

from __future__ import annotations

from dataclasses import dataclass

from indexgrep.request import SearchRequest


@dataclass(frozen=True)
class Query:
    """One question. ``flags`` are ripgrep's (``-i``, ``-w``, ``-F`` only)."""

    kind: str
    pattern: str
    flags: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return " ".join((*self.flags, self.pattern))

    def request(self) -> SearchRequest:
        return SearchRequest(
            patterns=(self.pattern,),
            case="insensitive" if "-i" in self.flags else "sensitive",
            word="-w" in self.flags,
            fixed_strings="-F" in self.flags,
        )


#: For the Linux source. The first four are the ones that the project's goals are stated for.
LINUX = (
    Query("selective literal", "MAX_FILE_SIZE"),
    Query("literal", "dma_alloc_coherent"),
    Query("literal", "struct file_operations"),
    Query("broad literal", "mutex_lock"),
    Query("selective literal", "bpf_prog_sub"),
    Query("selective literal", "no such thing anywhere"),
    Query("selective literal", "PM_RESUME"),
    Query("literal", "copy_to_user"),
    Query("literal", r"EXPORT_SYMBOL_GPL\(usb_"),
    Query("broad literal", "kfree"),
    Query("short literal", "ioctl"),
    Query("fixed string", "if (!(flags & ", ("-F",)),
    Query("case-insensitive", "spinlock_irqsave", ("-i",)),
    Query("case-insensitive", "deadbeef", ("-i",)),
    Query("whole word", "page_address", ("-w",)),
    Query("whole word", "rcu", ("-w",)),
    Query("alternation", "kmem_cache_create|kmem_cache_destroy|slab_is_available"),
    Query("alternation", "(ext4|btrfs|xfs)_(read|write)page"),
    Query("class", r"[A-Z]+_SUSPEND"),
    Query("class", r"usb_[a-z]+_urb\("),
    Query("class, broad", r"\bstruct\s+\w+_ops\b"),
    Query("repetition", r"for_each_\w+_cpu\(.*possible"),
    Query("anchor", r"^static const struct pci_device_id"),
    Query("anchor", r"^#include <linux/dma-.*>$"),
    Query("Unicode", r"Jürgen|Müller"),
    Query("no literal", r"[a-z]{20,}_[0-9]{4,}"),
    Query("no literal", r"\b(\d{1,3}\.){3}\d{1,3}\b"),
)
