/* Preloaded into ethtool, so that `ethtool -m` shows a module whose memory is the file MODULE, of the kind MODULE_TYPE (linux/ethtool.h).
 * Without netlink it asks by ioctl. Only for comparing. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

int socket(int domain, int type, int protocol) {
    if (domain == AF_NETLINK) {
        errno = EAFNOSUPPORT;
        return -1;
    }
    return ((int (*)(int, int, int))dlsym(RTLD_NEXT, "socket"))(domain, type, protocol);
}

int ioctl(int fd, unsigned long request, ...) {
    va_list arguments;
    va_start(arguments, request);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    if (request != SIOCETHTOOL) return ((int (*)(int, unsigned long, ...))dlsym(RTLD_NEXT, "ioctl"))(fd, request, argument);
    void *data = ((struct ifreq *)argument)->ifr_data;
    int file = open(getenv("MODULE"), O_RDONLY | O_CLOEXEC), result = -1;
    struct stat about;
    errno = EOPNOTSUPP;
    if (file >= 0 && fstat(file, &about) == 0 && *(unsigned *)data == ETHTOOL_GMODULEINFO) {
        struct ethtool_modinfo *info = data;
        info->type = (unsigned)atoi(getenv("MODULE_TYPE"));
        info->eeprom_len = (unsigned)about.st_size;
        result = 0;
    } else if (file >= 0 && *(unsigned *)data == ETHTOOL_GMODULEEEPROM) {
        struct ethtool_eeprom *part = data;
        if (pread(file, part->data, part->len, part->offset) == (ssize_t)part->len) result = 0;
    }
    if (file >= 0) close(file);
    return result;
}
