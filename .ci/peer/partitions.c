/* Preloaded into a program that relies on the kernel to find a disk's partitions, where the kernel can't (no GPT parser): after
 * each successful BLKRRPART the partitions of the disk's GPT are added with BLKPG. Only for measuring and comparing. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/blkpg.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

typedef int (*ioctl_fn)(int, unsigned long, ...);

static uint64_t le(const uint8_t *bytes, int count) {
    uint64_t value = 0;
    while (count-- > 0) value = value << 8 | bytes[count];
    return value;
}

static void add_partitions(int disk, ioctl_fn real) {
    char path[64];
    uint8_t header[92], entry[128], none[16] = {0};
    int sector = 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", disk);
    int reader = open(path, O_RDONLY | O_CLOEXEC);
    if (reader < 0) return;
    if (real(disk, BLKSSZGET, &sector) == 0 && pread(reader, header, sizeof header, sector) == sizeof header
        && memcmp(header, "EFI PART", 8) == 0 && le(header + 84, 4) == sizeof entry) {
        uint64_t array = le(header + 72, 8) * sector;
        for (unsigned number = 1; number <= le(header + 80, 4) && number <= 128; number++) {
            if (pread(reader, entry, sizeof entry, array + (number - 1) * sizeof entry) != sizeof entry) break;
            if (memcmp(entry, none, sizeof none) == 0) continue;
            uint64_t first = le(entry + 32, 8), last = le(entry + 40, 8);
            struct blkpg_partition part = {.start = first * sector, .length = (last - first + 1) * sector, .pno = number};
            struct blkpg_ioctl_arg arg = {.op = BLKPG_ADD_PARTITION, .datalen = sizeof part, .data = &part};
            real(disk, BLKPG, &arg);
        }
    }
    close(reader);
}

int ioctl(int fd, unsigned long request, ...) {
    va_list list;
    va_start(list, request);
    void *argument = va_arg(list, void *);
    va_end(list);
    ioctl_fn real = (ioctl_fn)dlsym(RTLD_NEXT, "ioctl");
    int result = real(fd, request, argument);
    if ((uint32_t)request == BLKRRPART && result == 0) add_partitions(fd, real);
    return result;
}
