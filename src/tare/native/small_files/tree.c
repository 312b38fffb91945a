#include "tree.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "content.h"
#include "fail.h"

enum { PATH_BYTES = 64 };

struct tree tree_new(int64_t files, int64_t per_folder, size_t bytes, uint64_t seed)
{
    struct tree tree = {.files = files, .per_folder = per_folder, .bytes = bytes, .seed = seed};
    size_t room = (bytes + 1 + 7) / 8 * 8;
    tree.expected = calloc(1, room);
    tree.found = calloc(1, room);
    if (tree.expected == NULL || tree.found == NULL)
        fail("no memory for files of %zu bytes", bytes);
    return tree;
}

bool tree_spread(void)
{
    int folder = open(".", O_RDONLY | O_DIRECTORY);
    int flags = 0;
    bool agreed = folder >= 0 && ioctl(folder, FS_IOC_GETFLAGS, &flags) == 0;
    flags |= FS_TOPDIR_FL;
    agreed = agreed && ioctl(folder, FS_IOC_SETFLAGS, &flags) == 0;
    if (folder >= 0)
        close(folder);
    return agreed;
}

int64_t tree_folders(const struct tree *tree)
{
    return (tree->files + tree->per_folder - 1) / tree->per_folder;
}

/* Always as long: a longer path is a slower one. */
static void folder_path(char path[PATH_BYTES], const struct tree *tree, int64_t folder)
{
    snprintf(path, PATH_BYTES, "%08" PRIx32 "-%08" PRId64, tree->tag, folder);
}

static void file_path(char path[PATH_BYTES], const struct tree *tree, int64_t number)
{
    snprintf(path, PATH_BYTES, "%08" PRIx32 "-%08" PRId64 "/%08" PRId64 ".bin", tree->tag, number / tree->per_folder,
             number);
}

void tree_make_folders(struct tree *tree)
{
    char path[PATH_BYTES];
    /* New names: ext4 places a folder by its name. */
    uint64_t now = clock_ns();
    tree->tag = (uint32_t)next_random(&now);
    for (int64_t folder = 0; folder < tree_folders(tree); folder++) {
        folder_path(path, tree, folder);
        if (mkdir(path, 0755) != 0)
            fail("folder %s cannot be made: %s", path, strerror(errno));
    }
}

void tree_remove_folders(const struct tree *tree)
{
    char path[PATH_BYTES];
    for (int64_t folder = 0; folder < tree_folders(tree); folder++) {
        folder_path(path, tree, folder);
        if (rmdir(path) != 0)
            fail("folder %s cannot be removed: %s", path, strerror(errno));
    }
}

uint64_t file_create(const struct tree *tree, int64_t number)
{
    char path[PATH_BYTES];
    file_path(path, tree, number);
    content_fill(tree->expected, tree->bytes, tree->seed, (uint64_t)number);
    uint64_t start = clock_ns();
    int file = open(path, O_CREAT | O_EXCL | O_WRONLY, 0644);
    ssize_t written = file < 0 ? -1 : write(file, tree->expected, tree->bytes);
    int closed = file < 0 ? -1 : close(file);
    uint64_t elapsed = clock_ns() - start;
    if (file < 0 || written < 0 || closed != 0)
        fail("%s cannot be written: %s; free bytes and inodes are needed for all files at once", path, strerror(errno));
    if ((size_t)written != tree->bytes)
        fail("%s: %zd of %zu bytes were written; is the file system full?", path, written, tree->bytes);
    return elapsed;
}

uint64_t file_stat(const struct tree *tree, int64_t number)
{
    char path[PATH_BYTES];
    struct stat found;
    file_path(path, tree, number);
    uint64_t start = clock_ns();
    int status = stat(path, &found);
    uint64_t elapsed = clock_ns() - start;
    if (status != 0)
        fail("%s cannot be looked at: %s", path, strerror(errno));
    if (found.st_size < 0 || (size_t)found.st_size != tree->bytes)
        fail("%s has %lld bytes, not %zu", path, (long long)found.st_size, tree->bytes);
    return elapsed;
}

uint64_t file_read(const struct tree *tree, int64_t number)
{
    char path[PATH_BYTES];
    file_path(path, tree, number);
    uint64_t start = clock_ns();
    int file = open(path, O_RDONLY);
    /* One byte more than there should be: a file that is too long is seen too. */
    ssize_t size = file < 0 ? -1 : read(file, tree->found, tree->bytes + 1);
    int closed = file < 0 ? -1 : close(file);
    uint64_t elapsed = clock_ns() - start;
    if (file < 0 || size < 0 || closed != 0)
        fail("%s cannot be read: %s", path, strerror(errno));
    content_fill(tree->expected, tree->bytes, tree->seed, (uint64_t)number);
    if ((size_t)size != tree->bytes || memcmp(tree->found, tree->expected, tree->bytes) != 0)
        fail("%s does not hold the %zu bytes that were written (%zd were read)", path, tree->bytes, size);
    return elapsed;
}

uint64_t file_unlink(const struct tree *tree, int64_t number)
{
    char path[PATH_BYTES];
    file_path(path, tree, number);
    uint64_t start = clock_ns();
    int status = unlink(path);
    uint64_t elapsed = clock_ns() - start;
    if (status != 0)
        fail("%s cannot be removed: %s", path, strerror(errno));
    return elapsed;
}
