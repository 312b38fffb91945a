/* The folder of test files: where each lies, and what is done to it. All paths are relative to the working folder. */
#ifndef TARE_FILES_TREE_H
#define TARE_FILES_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tree {
    int64_t files, per_folder;
    size_t bytes;
    uint64_t seed;
    uint32_t tag; /* part of the folders' names: new for every call of tree_make_folders */
    char *expected, *found; /* one file's content, as it must be and as it was read; one byte of room beyond */
};

/* A tree of `files` files of `bytes` bytes, nothing of it made yet. */
struct tree tree_new(int64_t files, int64_t per_folder, size_t bytes, uint64_t seed);

/*
 * Ask the file system to place the folders far from each other (the attribute T of chattr(1)); whether it agreed.
 *
 * ext4 without a journal does not use an inode again for a minute or more after its file was deleted, and looks at
 * every such inode of a block group before it takes another (check_recent in fs/ext4/ialloc.c): where all folders are
 * in one group, creating a file takes as much longer as files were deleted before, by this run or the one before it.
 */
bool tree_spread(void);

int64_t tree_folders(const struct tree *tree);
void tree_make_folders(struct tree *tree);
void tree_remove_folders(const struct tree *tree);

/* What is done to one file; each returns the nanoseconds of the calls that are meant, and fails when one does not work. */
typedef uint64_t file_function(const struct tree *tree, int64_t number);
file_function file_create; /* open as new, write all, close */
file_function file_stat;   /* stat; the size is checked */
file_function file_read;   /* open, read all, close; then, untimed, every byte is checked */
file_function file_unlink; /* unlink */

#endif
