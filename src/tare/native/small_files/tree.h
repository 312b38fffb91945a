/* The folder of test files: where each lies, and what is done to it. All paths are relative to the working folder. */
#ifndef TARE_FILES_TREE_H
#define TARE_FILES_TREE_H

#include <stddef.h>
#include <stdint.h>

struct tree {
    int64_t files, per_folder;
    size_t bytes;
    uint64_t seed;
    char *expected, *found; /* one file's content, as it must be and as it was read; one byte of room beyond */
};

/* A tree of `files` files of `bytes` bytes, nothing of it made yet. */
struct tree tree_new(int64_t files, int64_t per_folder, size_t bytes, uint64_t seed);

int64_t tree_folders(const struct tree *tree);
void tree_make_folders(const struct tree *tree);
void tree_remove_folders(const struct tree *tree);

/* What is done to one file; each returns the nanoseconds of the calls that are meant, and fails when one does not work. */
typedef uint64_t file_function(const struct tree *tree, int64_t number);
file_function file_create; /* open as new, write all, close */
file_function file_stat;   /* stat; the size is checked */
file_function file_read;   /* open, read all, close; then, untimed, every byte is checked */
file_function file_unlink; /* unlink */

#endif
